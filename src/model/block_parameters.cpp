#include "model/block_parameters.h"

#include <cmath>

#include "model/family.h"

namespace cadre::model {
namespace {

using nn::Initial;
using nn::ParameterRole;
using nn::ParameterSpec;

ParameterSpec matrix(const ModelSpec& spec, Role role, int64_t layer, const Shape& output_input) {
  const Family& family = family_of(spec);
  const Shape stored =
      family.transposed_linears ? Shape{output_input[1], output_input[0]} : output_input;
  return {.name = family.tensor_name(role, layer),
          .whole = stored,
          .deviation = static_cast<float>(spec.initializer_range)};
}

// A matrix that writes into the residual stream: there are two in every layer, and their sum should
// not grow with the depth (Radford et al., 2019).
ParameterSpec residual_matrix(const ModelSpec& spec, Role role, int64_t layer,
                              const Shape& output_input) {
  ParameterSpec result = matrix(spec, role, layer, output_input);
  if (spec.depth_scaled_init) {
    result.deviation /= std::sqrt(2.0f * static_cast<float>(spec.num_hidden_layers));
  }
  return result;
}

ParameterSpec vector(const ModelSpec& spec, Role role, int64_t layer, int64_t width,
                     Initial initial) {
  return {.name = family_of(spec).tensor_name(role, layer),
          .whole = {width},
          .initial = initial,
          .role = ParameterRole::kVector};
}

nn::Norm::Spec norm(const ModelSpec& spec, NormKind kind, Role weight, Role bias, int64_t layer,
                    int64_t width) {
  nn::Norm::Spec result{.kind = kind,
                        .epsilon = spec.norm_epsilon,
                        .weight = vector(spec, weight, layer, width, Initial::kOnes)};
  if (kind == NormKind::kLayer) {
    result.bias = vector(spec, bias, layer, width, Initial::kZeros);
  }
  return result;
}

ParameterSpec table(const ModelSpec& spec, Role role, int64_t rows, ParameterRole use) {
  return {.name = family_of(spec).tensor_name(role, 0),
          .whole = {rows, spec.hidden_size},
          .deviation = static_cast<float>(spec.initializer_range),
          .role = use};
}

}  // namespace

nn::Norm::Spec attention_norm_spec(const ModelSpec& spec, int64_t layer) {
  return norm(spec, spec.norm, Role::kAttentionNorm, Role::kAttentionNormBias, layer,
              spec.hidden_size);
}

nn::Norm::Spec mlp_norm_spec(const ModelSpec& spec, int64_t layer) {
  return norm(spec, spec.norm, Role::kMlpNorm, Role::kMlpNormBias, layer, spec.hidden_size);
}

nn::Norm::Spec final_norm_spec(const ModelSpec& spec) {
  return norm(spec, spec.norm, Role::kFinalNorm, Role::kFinalNormBias, 0, spec.hidden_size);
}

nn::Norm::Spec query_norm_spec(const ModelSpec& spec, int64_t layer) {
  return norm(spec, NormKind::kRms, Role::kQueryNorm, Role::kQueryNorm, layer, spec.head_dim);
}

nn::Norm::Spec key_norm_spec(const ModelSpec& spec, int64_t layer) {
  return norm(spec, NormKind::kRms, Role::kKeyNorm, Role::kKeyNorm, layer, spec.head_dim);
}

nn::LinearSpec qkv_spec(const ModelSpec& spec, int64_t layer) {
  const Family& family = family_of(spec);
  const int64_t query = spec.query_width();
  const int64_t key = spec.key_value_width();
  nn::LinearSpec result{.transposed = family.transposed_linears};
  const auto bias = [&](Role role, int64_t width) {
    if (spec.qkv_bias) {
      result.biases.push_back(vector(spec, role, layer, width, Initial::kZeros));
    }
  };
  if (family.fused_query_key_value) {
    result.weights = {
        matrix(spec, Role::kQueryKeyValue, layer, {query + 2 * key, spec.hidden_size})};
    if (query == key) {
      result.weights.front().fused = 3;
    }
    bias(Role::kQueryKeyValueBias, query + 2 * key);
    return result;
  }
  result.weights = {matrix(spec, Role::kQuery, layer, {query, spec.hidden_size}),
                    matrix(spec, Role::kKey, layer, {key, spec.hidden_size}),
                    matrix(spec, Role::kValue, layer, {key, spec.hidden_size})};
  bias(Role::kQueryBias, query);
  bias(Role::kKeyBias, key);
  bias(Role::kValueBias, key);
  return result;
}

nn::LinearSpec attention_output_spec(const ModelSpec& spec, int64_t layer) {
  nn::LinearSpec result{.weights = {residual_matrix(spec, Role::kAttentionOutput, layer,
                                                    {spec.hidden_size, spec.query_width()})},
                        .transposed = family_of(spec).transposed_linears};
  if (spec.attention_output_bias) {
    result.biases = {
        vector(spec, Role::kAttentionOutputBias, layer, spec.hidden_size, Initial::kZeros)};
  }
  return result;
}

nn::LinearSpec up_spec(const ModelSpec& spec, int64_t layer) {
  nn::LinearSpec result{.transposed = family_of(spec).transposed_linears};
  const Shape shape = {spec.intermediate_size, spec.hidden_size};
  if (spec.mlp == MlpKind::kSwiGlu) {
    result.weights.push_back(matrix(spec, Role::kGate, layer, shape));
  }
  result.weights.push_back(matrix(spec, Role::kUp, layer, shape));
  if (spec.mlp_bias && spec.mlp == MlpKind::kSwiGlu) {
    result.biases.push_back(
        vector(spec, Role::kGateBias, layer, spec.intermediate_size, Initial::kZeros));
  }
  if (spec.mlp_bias) {
    result.biases.push_back(
        vector(spec, Role::kUpBias, layer, spec.intermediate_size, Initial::kZeros));
  }
  return result;
}

nn::LinearSpec down_spec(const ModelSpec& spec, int64_t layer) {
  nn::LinearSpec result{.weights = {residual_matrix(spec, Role::kDown, layer,
                                                    {spec.hidden_size, spec.intermediate_size})},
                        .transposed = family_of(spec).transposed_linears};
  if (spec.mlp_bias) {
    result.biases = {vector(spec, Role::kDownBias, layer, spec.hidden_size, Initial::kZeros)};
  }
  return result;
}

nn::ParameterSpec token_embedding_spec(const ModelSpec& spec) {
  return table(spec, Role::kTokenEmbedding, spec.vocab_size, ParameterRole::kEmbedding);
}

nn::ParameterSpec position_embedding_spec(const ModelSpec& spec) {
  return table(spec, Role::kPositionEmbedding, spec.max_position_embeddings,
               ParameterRole::kEmbedding);
}

nn::ParameterSpec head_spec(const ModelSpec& spec) {
  return spec.tie_word_embeddings ? token_embedding_spec(spec)
                                  : table(spec, Role::kHead, spec.vocab_size, ParameterRole::kHead);
}

}  // namespace cadre::model
