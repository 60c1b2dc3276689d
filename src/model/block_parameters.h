// What the layers of a block declare, under the names of the family.

#pragma once

#include <cstdint>

#include "nn/linear.h"
#include "nn/norm.h"
#include "spec/model.h"

namespace cadre::model {

nn::Norm::Spec attention_norm_spec(const ModelSpec& spec, int64_t layer);
nn::Norm::Spec mlp_norm_spec(const ModelSpec& spec, int64_t layer);
nn::Norm::Spec final_norm_spec(const ModelSpec& spec);
nn::Norm::Spec query_norm_spec(const ModelSpec& spec, int64_t layer);  // of one head
nn::Norm::Spec key_norm_spec(const ModelSpec& spec, int64_t layer);

nn::LinearSpec qkv_spec(const ModelSpec& spec, int64_t layer);
nn::LinearSpec attention_output_spec(const ModelSpec& spec, int64_t layer);
nn::LinearSpec up_spec(const ModelSpec& spec, int64_t layer);  // gate over up for SwiGLU
nn::LinearSpec down_spec(const ModelSpec& spec, int64_t layer);

nn::ParameterSpec token_embedding_spec(const ModelSpec& spec);
nn::ParameterSpec position_embedding_spec(const ModelSpec& spec);
nn::ParameterSpec head_spec(const ModelSpec& spec);  // the token embedding if they are tied

}  // namespace cadre::model
