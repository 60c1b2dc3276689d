// ModelSpec: everything that distinguishes one decoder-only transformer from another, as plain data
// that one block reads. Names are those of Hugging Face's config.json.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cadre {

enum class NormKind { kRms, kLayer };       // RMSNorm; LayerNorm with bias
enum class MlpKind { kSwiGlu, kGeluTanh };  // down(silu(gate(x)) * up(x)); down(gelu(up(x)))
enum class PositionKind { kRotary, kLearned };

// How rotary frequencies are stretched for contexts longer than those of pre-training.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  int64_t original_max_position_embeddings = 0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  bool truncate = true;           // yarn: the bounds of the ramp are whole numbers
  std::optional<double> attention_factor = std::nullopt;  // yarn; nullopt: from mscale or factor
  std::optional<double> mscale = std::nullopt;            // yarn
  std::optional<double> mscale_all_dim = std::nullopt;    // yarn

  bool operator==(const RopeScaling&) const = default;
};

struct ModelSpec {
  std::string family =
      "llama";  // config.json's model_type: names the file in model/ that maps tensors
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;

  NormKind norm = NormKind::kRms;
  double norm_epsilon = 1e-5;
  MlpKind mlp = MlpKind::kSwiGlu;
  PositionKind positions = PositionKind::kRotary;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm of every head of q and k before rotation
  bool tie_word_embeddings = false;
  // Keys that a query of layer l may look back on, itself included; 0: all. Empty: all, everywhere.
  std::vector<int64_t> window_of_layer = {};

  double embedding_dropout = 0.0;
  double residual_dropout = 0.0;   // of what attention and the MLP add to the residual stream
  double attention_dropout = 0.0;  // of attention's probabilities
  double initializer_range = 0.02;
  bool depth_scaled_init = false;  // output projections start smaller by sqrt(2 num_hidden_layers)
  std::optional<int64_t> bos_token_id = std::nullopt;
  std::vector<int64_t> eos_token_ids = {};

  int64_t query_width() const { return num_attention_heads * head_dim; }
  int64_t key_value_width() const { return num_key_value_heads * head_dim; }
  int64_t window_of(int64_t layer) const {
    return window_of_layer.empty() ? 0 : window_of_layer[static_cast<size_t>(layer)];
  }

  bool operator==(const ModelSpec&) const = default;
};

}  // namespace cadre
