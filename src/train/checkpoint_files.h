// What a checkpoint holds beside its tensors.

#pragma once

#include <vector>

#include "checkpoint/save.h"
#include "train/run_folder.h"
#include "train/run_setup.h"

namespace cadre::train {

// The tokenizer as it came or was trained, and the configuration, so that a
// checkpoint can be continued from wherever it is moved to.
std::vector<CopiedFile> files_of_checkpoint(const RunSetup& setup, const RunFolder& folder);

}  // namespace cadre::train
