// FolderLock: one process at a time works in a folder. The kernel gives it up when the process
// ends, however it ends.

#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "base/result.h"
#include "storage/file.h"

namespace cadre {

class FolderLock {
 public:
  // Locks `folder`/.lock, which holds the process id of its owner and stays behind when the lock is
  // given up. A lock that another process (or this one) holds is refused at once, by that id.
  static Result<FolderLock> acquire(const std::filesystem::path& folder);

  // The same without changing anything, for who may yet find that there is nothing to do: nullopt
  // if the folder was never locked; otherwise the owner's id is written by announce().
  static Result<std::optional<FolderLock>> acquire_quietly(const std::filesystem::path& folder);
  Status announce();

 private:
  FolderLock(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  static Result<FolderLock> lock(const std::filesystem::path& path, FileDescriptor file);

  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace cadre
