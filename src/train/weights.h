// Weights: parameters and optimizer state between an engine and the files of a model folder or a
// checkpoint.

#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/save.h"
#include "train/engine.h"

namespace cadre::train {

// What load_weights() would refuse, from the headers of the files alone and without any memory for
// the model.
Status check_weights(const EngineSpec& spec, const std::filesystem::path& folder);

// Reads every parameter of the engine from a Hugging Face model folder. A tensor that is missing,
// left over or of another shape is refused by name, and nothing is changed then.
Status load_weights(Engine& engine, const std::filesystem::path& folder);

// Reads parameters (fp32 masters where there are any), optimizer state and the count of updates
// from a checkpoint of ours, which may have been saved in another precision.
Status load_checkpoint(Engine& engine, const std::filesystem::path& checkpoint,
                       const Json& trainer_state);

// The tensors of a checkpoint: the model in the compute dtype, masters and moments in f32. Views of
// the engine's memory.
std::vector<SavedTensor> model_tensors(const Engine& engine);
std::vector<SavedTensor> optimizer_tensors(Engine& engine);

}  // namespace cadre::train
