// Which layers of a Qwen look back through a window: use_sliding_window, sliding_window,
// max_window_layers and layer_types. The same for Qwen2 and Qwen3.

#pragma once

#include "base/json.h"
#include "model/family_config.h"
#include "spec/model.h"

namespace cadre::model {

// Wants spec.num_hidden_layers to be set.
void read_qwen_windows(ConfigReader& reader, ModelSpec& spec);
void write_qwen_windows(const ModelSpec& spec, Json& config);

}  // namespace cadre::model
