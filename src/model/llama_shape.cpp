#include "model/llama_shape.h"

#include <limits>

#include "base/check.h"
#include "model/family_rope.h"

namespace cadre::model {
namespace {

constexpr int64_t kWidthMax = int64_t{1} << 24;
constexpr int64_t kLayersMax = 1 << 16;
constexpr int64_t kIndexMax = std::numeric_limits<int32_t>::max();  // tokens and positions are i32

void read_heads(ConfigReader& reader, const LlamaDefaults& defaults, ModelSpec& spec) {
  spec.num_attention_heads =
      reader.integer("num_attention_heads", defaults.num_attention_heads, 1, kWidthMax);
  // With a null, transformers takes as many as there are query heads, whatever the default.
  const bool absent = !reader.has("num_key_value_heads");
  const int64_t fallback = absent && defaults.num_key_value_heads > 0 ? defaults.num_key_value_heads
                                                                      : spec.num_attention_heads;
  spec.num_key_value_heads = reader.integer("num_key_value_heads", fallback, 1, kWidthMax);
  if (spec.num_attention_heads % spec.num_key_value_heads != 0) {
    reader.complain(concat("num_key_value_heads: found ", spec.num_key_value_heads,
                           ", allowed are divisors of num_attention_heads, which is ",
                           spec.num_attention_heads));
  }
  const auto head_dim = reader.optional_integer("head_dim", 2, kWidthMax);
  if (head_dim) {
    spec.head_dim = *head_dim;
  } else if (defaults.head_dim > 0) {
    spec.head_dim = defaults.head_dim;
  } else if (spec.hidden_size % spec.num_attention_heads == 0) {
    spec.head_dim = spec.hidden_size / spec.num_attention_heads;
  } else {
    reader.complain(concat("hidden_size: found ", spec.hidden_size,
                           ", allowed are multiples of num_attention_heads, which is ",
                           spec.num_attention_heads, ", or any with head_dim given"));
    return;
  }
  if (spec.head_dim % 2 != 0) {
    reader.complain(concat("head_dim: found ", spec.head_dim,
                           ", allowed are even numbers: rotation turns pairs of channels"));
  }
}

}  // namespace

ModelSpec read_llama_shape(ConfigReader& reader, std::string_view source,
                           const LlamaDefaults& defaults) {
  ModelSpec spec;
  read_common_keys(reader);
  spec.norm = NormKind::kRms;
  spec.mlp = MlpKind::kSwiGlu;
  spec.positions = PositionKind::kRotary;
  spec.vocab_size = reader.integer("vocab_size", 0, 1, kIndexMax);
  spec.hidden_size = reader.integer("hidden_size", defaults.hidden_size, 1, kWidthMax);
  spec.intermediate_size =
      reader.integer("intermediate_size", defaults.intermediate_size, 1, kWidthMax);
  spec.num_hidden_layers =
      reader.integer("num_hidden_layers", defaults.num_hidden_layers, 1, kLayersMax);
  read_heads(reader, defaults, spec);
  spec.max_position_embeddings =
      reader.integer("max_position_embeddings", defaults.max_position_embeddings, 1, kIndexMax);
  spec.norm_epsilon = reader.number("rms_norm_eps", 1e-6, 1e-30, 1.0);
  read_rope(reader, source, spec);
  spec.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  spec.initializer_range = reader.number("initializer_range", 0.02, 0.0, 1.0);
  spec.depth_scaled_init = reader.boolean("depth_scaled_init", false);
  read_token_ids(reader, spec);
  const std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    reader.refuse("hidden_act", "allowed is \"silu\"");
  }
  spec.attention_dropout = reader.number("attention_dropout", 0.0, 0.0, 0.999);
  return spec;
}

Json write_llama_shape(const ModelSpec& spec) {
  Json config;
  if (spec.vocab_size > 0) {
    config["vocab_size"] = spec.vocab_size;
  }
  config["hidden_size"] = spec.hidden_size;
  config["intermediate_size"] = spec.intermediate_size;
  config["num_hidden_layers"] = spec.num_hidden_layers;
  config["num_attention_heads"] = spec.num_attention_heads;
  config["num_key_value_heads"] = spec.num_key_value_heads;
  config["head_dim"] = spec.head_dim;
  config["hidden_act"] = "silu";
  config["max_position_embeddings"] = spec.max_position_embeddings;
  config["rms_norm_eps"] = spec.norm_epsilon;
  write_rope(spec, config);
  config["tie_word_embeddings"] = spec.tie_word_embeddings;
  config["initializer_range"] = spec.initializer_range;
  if (spec.depth_scaled_init) {
    config["depth_scaled_init"] = true;  // cadre's own; transformers keeps what it does not know
  }
  config["attention_dropout"] = spec.attention_dropout;
  write_token_ids(spec, config);
  return config;
}

std::string llama_tensor_name(Role role, int64_t layer) {
  const auto in_layer = [layer](std::string_view rest) {
    return concat("model.layers.", layer, ".", rest);
  };
  switch (role) {
    case Role::kTokenEmbedding:
      return "model.embed_tokens.weight";
    case Role::kAttentionNorm:
      return in_layer("input_layernorm.weight");
    case Role::kQuery:
      return in_layer("self_attn.q_proj.weight");
    case Role::kKey:
      return in_layer("self_attn.k_proj.weight");
    case Role::kValue:
      return in_layer("self_attn.v_proj.weight");
    case Role::kQueryBias:
      return in_layer("self_attn.q_proj.bias");
    case Role::kKeyBias:
      return in_layer("self_attn.k_proj.bias");
    case Role::kValueBias:
      return in_layer("self_attn.v_proj.bias");
    case Role::kQueryNorm:
      return in_layer("self_attn.q_norm.weight");
    case Role::kKeyNorm:
      return in_layer("self_attn.k_norm.weight");
    case Role::kAttentionOutput:
      return in_layer("self_attn.o_proj.weight");
    case Role::kAttentionOutputBias:
      return in_layer("self_attn.o_proj.bias");
    case Role::kMlpNorm:
      return in_layer("post_attention_layernorm.weight");
    case Role::kGate:
      return in_layer("mlp.gate_proj.weight");
    case Role::kGateBias:
      return in_layer("mlp.gate_proj.bias");
    case Role::kUp:
      return in_layer("mlp.up_proj.weight");
    case Role::kUpBias:
      return in_layer("mlp.up_proj.bias");
    case Role::kDown:
      return in_layer("mlp.down_proj.weight");
    case Role::kDownBias:
      return in_layer("mlp.down_proj.bias");
    case Role::kFinalNorm:
      return "model.norm.weight";
    case Role::kHead:
      return "lm_head.weight";
    default:
      CADRE_CHECK(false, "no tensor of a Llama has the role ", static_cast<int>(role));
      return {};
  }
}

}  // namespace cadre::model
