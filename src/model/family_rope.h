// rope_theta, rope_scaling (transformers 4) and rope_parameters (transformers 5) of a config.json.

#pragma once

#include <string_view>

#include "base/json.h"
#include "model/family_config.h"
#include "spec/model.h"

namespace cadre::model {

// Wants spec.max_position_embeddings and spec.head_dim to be set.
void read_rope(ConfigReader& reader, std::string_view source, ModelSpec& spec);

// rope_theta and rope_scaling, which both versions read.
void write_rope(const ModelSpec& spec, Json& config);

}  // namespace cadre::model
