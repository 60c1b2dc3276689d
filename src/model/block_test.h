// For the tests of the block and of the stage: every option that a family may have, on odd sizes.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/cross_entropy.h"
#include "model/batch.h"
#include "nn/store_test.h"
#include "spec/model.h"

namespace cadre::model {

struct BlockCase {
  std::string name;
  ModelSpec spec;
  bool documents = false;
};

// For messages of tests.
inline void PrintTo(const BlockCase& c, std::ostream* out) {
  *out << c.name;
}

// Heads are wider or narrower than their share of the width, and no size divides a vector.
inline ModelSpec odd_llama() {
  return {.family = "llama",
          .vocab_size = 11,
          .hidden_size = 15,
          .intermediate_size = 11,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .num_key_value_heads = 1,
          .head_dim = 6,
          .max_position_embeddings = 16,
          .initializer_range = 0.3};
}

inline ModelSpec odd_gpt2() {
  ModelSpec spec = odd_llama();
  spec.family = "gpt2";
  spec.num_key_value_heads = 3;
  spec.head_dim = 5;
  spec.norm = NormKind::kLayer;
  spec.mlp = MlpKind::kGeluTanh;
  spec.positions = PositionKind::kLearned;
  spec.qkv_bias = spec.attention_output_bias = spec.mlp_bias = true;
  return spec;
}

inline std::vector<BlockCase> block_cases() {
  std::vector<BlockCase> cases;
  const auto add = [&](const char* name, const ModelSpec& spec) -> BlockCase& {
    return cases.emplace_back(BlockCase{.name = name, .spec = spec});
  };
  add("llama", odd_llama());
  ModelSpec& biases = add("llama_biases", odd_llama()).spec;
  biases.qkv_bias = biases.attention_output_bias = biases.mlp_bias = true;
  add("llama_scaled_rotary", odd_llama()).spec.rope_scaling = {
      .kind = RopeScaling::Kind::kYarn, .factor = 4.0, .original_max_position_embeddings = 4};
  add("llama_documents", odd_llama()).documents = true;
  BlockCase& mistral = add("mistral_window_documents", odd_llama());
  mistral.spec.family = "mistral";
  mistral.spec.window_of_layer = {3, 3};
  mistral.documents = true;
  ModelSpec& qwen2 = add("qwen2_biases_window", odd_llama()).spec;
  qwen2.family = "qwen2";
  qwen2.qkv_bias = true;
  qwen2.window_of_layer = {4, 0};
  ModelSpec& qwen3 = add("qwen3_qk_norm", odd_llama()).spec;
  qwen3.family = "qwen3";
  qwen3.qk_norm = true;
  add("gpt2", odd_gpt2());
  add("gpt2_documents", odd_gpt2()).documents = true;
  ModelSpec& dropping = add("gpt2_dropout", odd_gpt2()).spec;
  dropping.residual_dropout = 0.2;
  dropping.attention_dropout = 0.3;
  dropping.embedding_dropout = 0.1;
  return cases;
}

// Two sequences of 7 tokens; with documents, cut elsewhere in each, and positions restart.
struct SmallBatch {
  static constexpr int64_t kSequences = 2;
  static constexpr int64_t kLength = 7;

  SmallBatch(testing::Rig& rig, bool documents)
      : tokens(rig.ids({14}, {3, 0, 10, 3, 7, 1, 9, 5, 5, 2, 10, 4, 6, 8})),
        targets(rig.ids({14}, {0, 10, 3, kernels::kIgnoredTarget, 1, 9, 2,  //
                               5, 2, 10, 4, 6, 8, kernels::kIgnoredTarget})) {
    std::vector<int32_t> start(14, 0), position;
    if (documents) {
      start = {0, 0, 0, 3, 3, 5, 5, 0, 1, 1, 1, 1, 5, 5};
    }
    for (size_t i = 0; i < 14; ++i) {
      position.push_back(static_cast<int32_t>(i % 7) - start[i]);
    }
    positions = rig.ids({14}, position);
    starts = documents ? rig.ids({2, 7}, start) : Tensor();
  }

  Batch batch() const {
    return {.sequences = kSequences,
            .sequence_length = kLength,
            .token_T = tokens,
            .position_T = positions,
            .target_T = targets,
            .start_BS = starts,
            .seed = 5,
            .step = 3,
            .first_row = 4 * kLength};
  }

  Tensor tokens, targets, positions, starts;
};

// Central differences with a tolerance of a share of the largest derivative: a block bends more
// than a single layer.
template <typename Loss>
void expect_derivatives(ConstTensor gradient, Tensor values, const Loss& loss) {
  float largest = 0.0f;
  for (const float value : testing::values_of(gradient)) {
    largest = std::max(largest, std::abs(value));
  }
  testing::expect_central_differences(gradient, values, loss, 1e-2f,
                                      2e-3 * std::max(1.0, static_cast<double>(largest)));
}

// Vectors start as ones and zeros, which would hide a factor.
inline void disturb_vectors(nn::StoreRig& x) {
  uint64_t seed = 100;
  for (nn::Parameter& parameter : x.store.parameters()) {
    if (parameter.spec.role == nn::ParameterRole::kVector) {
      std::vector<float> values = testing::values_of(parameter.master);
      const std::vector<float> noise =
          testing::values_of(x.rig.random(parameter.master.shape, ++seed));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] += 0.3f * noise[i];
      }
      testing::set_values(parameter.master, values);
    }
  }
}

}  // namespace cadre::model
