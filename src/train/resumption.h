// Resumption: which checkpoint a run takes up, and whether it is still the same run.

#pragma once

#include <optional>

#include "base/log.h"
#include "base/result.h"
#include "checkpoint/checkpoints.h"
#include "spec/model.h"
#include "spec/run.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace cadre::train {

// What a run takes up, if anything. Checkpoints of an earlier run are never mixed with a new one.
Result<std::optional<CheckpointInfo>> find_checkpoint(const RunFolder& folder,
                                                      const TrainOptions& options, Log& log);

// Refuses to continue under another configuration where that would silently be another run; says
// what else has changed. (That the data are the same, run_state.h checks once they are open.)
Status check_same_run(const CheckpointInfo& checkpoint, const RunSpec& now, Log& log);

// Refuses to continue if the folder that the configuration names describes another model by now.
Status check_same_model(const CheckpointInfo& checkpoint, const ModelSpec& now);

}  // namespace cadre::train
