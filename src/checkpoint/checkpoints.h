// The checkpoints of a run: which there are, whether they are whole, which may go.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cadre {

struct CheckpointInfo {
  std::filesystem::path path;
  int64_t step = 0;
  int64_t bytes = 0;  // of its files; 0 if it is not complete
  // Why it cannot be used; empty: nothing is known against it.
  std::string problem = {};
  bool complete() const { return problem.empty(); }
};

// How closely a checkpoint is looked at: the manifest and the files' sizes, or every byte.
enum class Scrutiny { kSizes, kChecksums };

// Told, one sentence each, what was passed over and why.
using NoteCallback = std::function<void(const std::string& note)>;

// Every folder that is named like a checkpoint, by step, and temporary ones that a killed process
// left. A `checkpoints` folder that does not exist is empty.
Result<std::vector<CheckpointInfo>> list_checkpoints(const std::filesystem::path& checkpoints,
                                                     Scrutiny scrutiny);

// The complete checkpoint of the highest step. Reads all of its bytes, which loading would do
// anyway: a corrupt one is passed over here, not half loaded later.
Result<std::optional<CheckpointInfo>> newest_complete(const std::filesystem::path& checkpoints,
                                                      const NoteCallback& note,
                                                      Scrutiny scrutiny = Scrutiny::kChecksums);

// Refuses, with the first problem found, a checkpoint that is not whole.
Result<CheckpointInfo> verify_checkpoint(const std::filesystem::path& checkpoint,
                                         Scrutiny scrutiny);

// Of the complete checkpoints up to `current_step` keeps the `keep` newest (0: all) and removes the
// older ones; removes what killed processes left half written or half removed. Never touches
// anything of `current_step`, which may be in the making, or of a later step; nor a checkpoint that
// is damaged (a note names it: it may be worth saving). One process of a run calls it. It may be
// killed at any point and called again.
Status purge_checkpoints(const std::filesystem::path& checkpoints, int64_t keep,
                         int64_t current_step, const NoteCallback& note);

}  // namespace cadre
