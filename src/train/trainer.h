// Trainer: a run from its configuration to its end. Takes the last complete checkpoint up, steps,
// evaluates, saves, and stops when it is asked to.

#pragma once

#include <cstdio>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "spec/read.h"

namespace cadre::train {

struct TrainOptions {
  enum class Resume { kAuto, kNever, kFrom };
  Resume resume = Resume::kAuto;
  std::filesystem::path resume_from = {};  // a checkpoint, or a run folder
  bool log_json = false;                   // one JSON object per step on stdout, nothing else
};

enum class RunEnd {
  kDone,
  kStopped,  // on request, after saving a checkpoint
};

// Prints progress on stdout and events on stderr. An input error has changed nothing;
// no StepError passes.
Result<RunEnd> train_run(const LoadedRun& loaded, const TrainOptions& options);

}  // namespace cadre::train
