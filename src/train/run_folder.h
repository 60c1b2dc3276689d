// RunFolder: where a run writes. docs/run-folder.md lists what is in it.

#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/result.h"
#include "checkpoint/checkpoints.h"
#include "spec/read.h"
#include "storage/folder_lock.h"

namespace cadre::train {

class RunFolder {
 public:
  // Refuses a folder in which another process trains, or that cannot be written to. Creates
  // nothing.
  static Result<RunFolder> find(const std::filesystem::path& folder);

  // Creates what is missing and takes the lock, if find() could not yet.
  Status create();

  // The checkpoint that the folder's run was begun from by --resume; empty: none.
  std::filesystem::path origin() const;
  Status set_origin(const std::filesystem::path& checkpoint);

  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path run_yaml() const { return folder_ / "run.yaml"; }
  std::filesystem::path metrics() const { return folder_ / "metrics.jsonl"; }
  std::filesystem::path rank_log() const { return folder_ / "log" / "rank-0000.log"; }
  const std::filesystem::path& path() const { return folder_; }

 private:
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
};

}  // namespace cadre::train
