// GPT-2: LayerNorm, learned positions, tanh GELU, biases everywhere, q, k and v in one tensor, and
// linear weights stored [input, output].

#include <limits>

#include "base/check.h"
#include "model/family_config.h"
#include "model/family_list.h"

namespace cadre::model {
namespace {

constexpr int64_t kWidthMax = int64_t{1} << 24;
constexpr int64_t kLayersMax = 1 << 16;
constexpr int64_t kIndexMax = std::numeric_limits<int32_t>::max();

// A size that may also stand under the name that other families have for it.
int64_t read_size(ConfigReader& reader, std::string_view name, std::string_view other,
                  int64_t fallback, int64_t most) {
  const auto value = reader.optional_integer(name, 1, most);
  const auto same = reader.optional_integer(other, 1, most);
  if (value && same && *value != *same) {
    reader.refuse(other, concat(name, " is ", *value, "; remove one of the two"));
  }
  return value ? *value : same.value_or(fallback);
}

void read_sizes(ConfigReader& reader, ModelSpec& spec) {
  spec.vocab_size = reader.integer("vocab_size", 0, 1, kIndexMax);
  spec.hidden_size = read_size(reader, "n_embd", "hidden_size", 768, kWidthMax);
  spec.num_hidden_layers = read_size(reader, "n_layer", "num_hidden_layers", 12, kLayersMax);
  spec.num_attention_heads = read_size(reader, "n_head", "num_attention_heads", 12, kWidthMax);
  spec.num_key_value_heads = spec.num_attention_heads;
  spec.max_position_embeddings =
      read_size(reader, "n_positions", "max_position_embeddings", 1024, kIndexMax);
  spec.intermediate_size =
      read_size(reader, "n_inner", "intermediate_size", 4 * spec.hidden_size, kWidthMax);
  spec.head_dim = spec.hidden_size / spec.num_attention_heads;
  if (spec.hidden_size % spec.num_attention_heads != 0) {
    reader.complain(concat("n_embd: found ", spec.hidden_size,
                           ", allowed are multiples of n_head, which is ",
                           spec.num_attention_heads));
  }
  if (reader.optional_integer("num_key_value_heads", 1, kWidthMax)
          .value_or(spec.num_attention_heads) != spec.num_attention_heads) {
    reader.refuse("num_key_value_heads",
                  concat("allowed is n_head, which is ", spec.num_attention_heads,
                         ": GPT-2 does not group heads"));
  }
}

void read_activation(ConfigReader& reader) {
  // Three names of 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  const std::string name = reader.text("activation_function", "gelu_new");
  if (name != "gelu_new" && name != "gelu_pytorch_tanh" && name != "gelu_fast") {
    reader.refuse("activation_function",
                  "allowed is \"gelu_new\" (also called gelu_pytorch_tanh and gelu_fast)");
  }
}

Result<ModelSpec> read_config(const Json& config, std::string_view source) {
  ConfigReader reader(config, source);
  ModelSpec spec;
  spec.family = kGpt2.model_type;
  spec.norm = NormKind::kLayer;
  spec.mlp = MlpKind::kGeluTanh;
  spec.positions = PositionKind::kLearned;
  spec.qkv_bias = true;
  spec.attention_output_bias = true;
  spec.mlp_bias = true;
  read_common_keys(reader);
  read_sizes(reader, spec);
  read_activation(reader);
  spec.norm_epsilon = reader.number("layer_norm_epsilon", 1e-5, 1e-30, 1.0);
  spec.embedding_dropout = reader.number("embd_pdrop", 0.1, 0.0, 0.999);
  spec.residual_dropout = reader.number("resid_pdrop", 0.1, 0.0, 0.999);
  spec.attention_dropout = reader.number("attn_pdrop", 0.1, 0.0, 0.999);
  spec.initializer_range = reader.number("initializer_range", 0.02, 0.0, 1.0);
  spec.depth_scaled_init = reader.boolean("depth_scaled_init", true);
  spec.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  read_token_ids(reader, spec);
  reader.only("scale_attn_weights", true, "scores are divided by sqrt(head_dim)");
  reader.only("scale_attn_by_inverse_layer_idx", false, "all layers scale their scores alike");
  // n_ctx is the old name of n_positions; reordering and upcasting change rounding alone.
  reader.ignore({"n_ctx", "reorder_and_upcast_attn", "n_special", "predict_special_tokens",
                 "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                 "summary_first_dropout", "afn"});
  reader.refuse_unknown("GPT-2");
  return reader.finish(spec);
}

Json write_config(const ModelSpec& spec) {
  Json config;
  if (spec.vocab_size > 0) {
    config["vocab_size"] = spec.vocab_size;
  }
  config["n_positions"] = spec.max_position_embeddings;
  config["n_embd"] = spec.hidden_size;
  config["n_layer"] = spec.num_hidden_layers;
  config["n_head"] = spec.num_attention_heads;
  config["n_inner"] = spec.intermediate_size;
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = spec.norm_epsilon;
  config["embd_pdrop"] = spec.embedding_dropout;
  config["resid_pdrop"] = spec.residual_dropout;
  config["attn_pdrop"] = spec.attention_dropout;
  config["initializer_range"] = spec.initializer_range;
  if (!spec.depth_scaled_init) {
    config["depth_scaled_init"] = false;  // cadre's own; transformers keeps what it does not know
  }
  config["scale_attn_weights"] = true;
  config["tie_word_embeddings"] = spec.tie_word_embeddings;
  write_token_ids(spec, config);
  return config;
}

std::string tensor_name(Role role, int64_t layer) {
  const auto in_layer = [layer](std::string_view rest) {
    return concat("transformer.h.", layer, ".", rest);
  };
  switch (role) {
    case Role::kTokenEmbedding:
      return "transformer.wte.weight";
    case Role::kPositionEmbedding:
      return "transformer.wpe.weight";
    case Role::kAttentionNorm:
      return in_layer("ln_1.weight");
    case Role::kAttentionNormBias:
      return in_layer("ln_1.bias");
    case Role::kQueryKeyValue:
      return in_layer("attn.c_attn.weight");
    case Role::kQueryKeyValueBias:
      return in_layer("attn.c_attn.bias");
    case Role::kAttentionOutput:
      return in_layer("attn.c_proj.weight");
    case Role::kAttentionOutputBias:
      return in_layer("attn.c_proj.bias");
    case Role::kMlpNorm:
      return in_layer("ln_2.weight");
    case Role::kMlpNormBias:
      return in_layer("ln_2.bias");
    case Role::kUp:
      return in_layer("mlp.c_fc.weight");
    case Role::kUpBias:
      return in_layer("mlp.c_fc.bias");
    case Role::kDown:
      return in_layer("mlp.c_proj.weight");
    case Role::kDownBias:
      return in_layer("mlp.c_proj.bias");
    case Role::kFinalNorm:
      return "transformer.ln_f.weight";
    case Role::kFinalNormBias:
      return "transformer.ln_f.bias";
    case Role::kHead:
      return "lm_head.weight";
    default:
      CADRE_CHECK(false, "no tensor of a GPT-2 has the role ", static_cast<int>(role));
      return {};
  }
}

}  // namespace

constinit const Family kGpt2 = {
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .prefix = "transformer.",
    .fused_query_key_value = true,
    .transposed_linears = true,
    .read_config = read_config,
    .write_config = write_config,
    .tensor_name = tensor_name,
};

}  // namespace cadre::model
