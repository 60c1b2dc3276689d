// What Llama and the families that descend from it have in common: names of keys and of tensors.
// Each family says in its own file what it adds.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/family.h"
#include "model/family_config.h"
#include "spec/model.h"

namespace cadre::model {

// What transformers takes for keys that are missing.
struct LlamaDefaults {
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: as many as num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;
};

// Sizes, norm, activation, rotation, initialisation and token ids: all keys but those of biases and
// windows.
ModelSpec read_llama_shape(ConfigReader& reader, std::string_view source,
                           const LlamaDefaults& defaults);
Json write_llama_shape(const ModelSpec& spec);

// "model.layers.3.self_attn.q_proj.weight"
std::string llama_tensor_name(Role role, int64_t layer);

}  // namespace cadre::model
