// The keys of `model`: where it comes from, and the keys of Hugging Face's config.json. Which of
// them a family knows, and what it takes for those not given, is said in model/, one file a family.

#include "spec/schema.h"

namespace cadre {
namespace {

using schema::at_least;
using schema::below_one;
using schema::boolean;
using schema::extent;
using schema::positive;
using schema::text;
using schema::texts;

constexpr auto kSame = OnResume::kRefused;
constexpr auto kFree = OnResume::kFree;
constexpr Allowed kIntegers = {.type = KeyType::kIntegers, .minimum = 0};
constexpr Allowed kLayers = schema::whole(1, static_cast<double>(kLayersMax));
constexpr Allowed kAnything = {.type = KeyType::kAnything};
constexpr std::string_view kFamily = "the family's";
constexpr std::string_view kNothing =
    "Has no meaning here; accepted, so that a config.json can be pasted.";

constexpr Key config(std::string_view path, Allowed allowed, std::string_view description) {
  return {path, allowed, nullptr, kSame, description, kFamily};
}
constexpr Key without_meaning(std::string_view path) {
  return {path, kAnything, nullptr, kFree, kNothing, "none"};
}

constexpr Key kKeys[] = {
    {"model.from",
     {.type = KeyType::kInputPath},
     schema::field<&Draft::run, &RunSpec::model, &ModelSource::from>,
     OnResume::kReported,
     "A Hugging Face directory; other keys override those of its config.json. A run that goes on "
     "takes its weights from the checkpoint; the model must be the same, wherever it lies now.",
     "none"},
    {"model.load_weights", boolean(),
     schema::field<&Draft::run, &RunSpec::model, &ModelSource::load_weights>, OnResume::kReported,
     "`false` takes only the config.json of `from`, and initialises the weights."},

    config("model.model_type", text(),
           "The family: `llama`, `mistral`, `qwen2`, `qwen3`, `gpt2`, …"),
    config("model.architectures", texts(),
           "The class of the model in transformers; the family goes by it before `model_type`."),
    config("model.vocab_size", extent(1),
           "Rows of the embedding; that of the tokenizer if it is trained."),
    config("model.hidden_size", extent(1), "Width of the residual stream."),
    config("model.intermediate_size", extent(1), "Width of the MLP."),
    config("model.num_hidden_layers", kLayers, "Blocks."),
    config("model.num_attention_heads", extent(1), "Heads of the queries."),
    config("model.num_key_value_heads", extent(1),
           "Heads of keys and values; divides `num_attention_heads`."),
    config("model.head_dim", extent(1), "Width of a head."),
    config("model.max_position_embeddings", extent(1), "The longest sequence it is made for."),
    config("model.hidden_act", text(), "Activation of the MLP."),
    config("model.rms_norm_eps", positive(), "Added to the mean square in RMSNorm."),
    config("model.tie_word_embeddings", boolean(), "The head is the embedding, transposed."),
    config("model.initializer_range", positive(), "Standard deviation of initial weights."),
    config("model.depth_scaled_init", boolean(),
           "The projections that end attention and MLP start smaller, by the root of twice the "
           "number of blocks."),
    config("model.attention_bias", boolean(), "Biases in the attention's projections."),
    config("model.mlp_bias", boolean(), "Biases in the MLP's projections."),
    config("model.attention_dropout", below_one(),
           "Dropout of attention's probabilities, in training."),
    config("model.sliding_window", at_least(1), "Keys a query may look back on, itself included."),
    config("model.use_sliding_window", boolean(), "Qwen: whether `sliding_window` counts."),
    config("model.max_window_layers", at_least(0), "Qwen: the first layer with a window."),
    config("model.layer_types", texts(), "Of each layer: `full_attention` or `sliding_attention`."),
    config("model.bos_token_id", kIntegers, "The token that begins a text."),
    config("model.eos_token_id", kIntegers, "The token, or tokens, that end a text."),

    config("model.rope_theta", positive(), "Base of the rotary frequencies."),
    config("model.partial_rotary_factor", positive(), "Share of a head that rotates: 1."),
    config("model.rope_scaling.rope_type", text(), "`linear`, `dynamic`, `llama3` or `yarn`."),
    config("model.rope_scaling.type", text(), "The older name of `rope_type`."),
    config("model.rope_scaling.factor", positive(), "How many times longer the context becomes."),
    config("model.rope_scaling.original_max_position_embeddings", at_least(1),
           "The context of pre-training."),
    config("model.rope_scaling.low_freq_factor", positive(), "llama3"),
    config("model.rope_scaling.high_freq_factor", positive(), "llama3"),
    config("model.rope_scaling.beta_fast", positive(), "yarn"),
    config("model.rope_scaling.beta_slow", positive(), "yarn"),
    config("model.rope_scaling.truncate", boolean(), "yarn"),
    config("model.rope_scaling.attention_factor", positive(), "yarn"),
    config("model.rope_scaling.mscale", positive(), "yarn"),
    config("model.rope_scaling.mscale_all_dim", positive(), "yarn"),
    config("model.rope_parameters.rope_theta", positive(),
           "`rope_parameters` is how newer files write `rope_theta` and `rope_scaling` in one."),
    config("model.rope_parameters.rope_type", text(), "As in `rope_scaling`; `default` is none."),
    config("model.rope_parameters.partial_rotary_factor", positive(),
           "Share of a head that rotates: 1."),
    config("model.rope_parameters.factor", positive(), "As in `rope_scaling`."),
    config("model.rope_parameters.original_max_position_embeddings", at_least(1),
           "As in `rope_scaling`."),
    config("model.rope_parameters.low_freq_factor", positive(), "llama3"),
    config("model.rope_parameters.high_freq_factor", positive(), "llama3"),
    config("model.rope_parameters.beta_fast", positive(), "yarn"),
    config("model.rope_parameters.beta_slow", positive(), "yarn"),
    config("model.rope_parameters.truncate", boolean(), "yarn"),
    config("model.rope_parameters.attention_factor", positive(), "yarn"),
    config("model.rope_parameters.mscale", positive(), "yarn"),
    config("model.rope_parameters.mscale_all_dim", positive(), "yarn"),

    config("model.n_embd", extent(1), "GPT-2: width of the residual stream."),
    config("model.n_inner", extent(1),
           "GPT-2: width of the MLP; four times `n_embd` if not given."),
    config("model.n_layer", kLayers, "GPT-2: blocks."),
    config("model.n_head", extent(1), "GPT-2: heads; divides `n_embd`."),
    config("model.n_positions", extent(1), "GPT-2: learned positions, so the longest sequence."),
    config("model.n_ctx", extent(1), "GPT-2: the older name of `n_positions`."),
    config("model.activation_function", text(), "GPT-2: `gelu_new`."),
    config("model.layer_norm_epsilon", positive(), "GPT-2: added to the variance in LayerNorm."),
    config("model.embd_pdrop", below_one(),
           "GPT-2: dropout of the embedding, in training; 0.1 if absent."),
    config("model.resid_pdrop", below_one(),
           "GPT-2: dropout of what attention and the MLP add, in training; 0.1 if absent."),
    config("model.attn_pdrop", below_one(),
           "GPT-2: dropout of attention's probabilities, in training; 0.1 if absent."),
    config("model.scale_attn_weights", boolean(),
           "GPT-2: scores are divided by the root of a head's width."),
    config("model.scale_attn_by_inverse_layer_idx", boolean(), "GPT-2: and by the layer's number."),
    config("model.reorder_and_upcast_attn", boolean(),
           "GPT-2: scores in fp32, which they always are here."),

    without_meaning("model.torch_dtype"),
    without_meaning("model.dtype"),
    without_meaning("model.transformers_version"),
    without_meaning("model._name_or_path"),
    without_meaning("model.use_cache"),
    without_meaning("model.pretraining_tp"),
    without_meaning("model.tokenizer_class"),
    without_meaning("model.is_decoder"),
    without_meaning("model.return_dict"),
    without_meaning("model.output_attentions"),
    without_meaning("model.output_hidden_states"),
    without_meaning("model.n_special"),
    without_meaning("model.predict_special_tokens"),
    without_meaning("model.pad_token_id"),
    without_meaning("model.attn_implementation"),
    without_meaning("model._attn_implementation"),
    without_meaning("model.gradient_checkpointing"),
    without_meaning("model.task_specific_params"),
    without_meaning("model.summary_type"),
    without_meaning("model.summary_use_proj"),
    without_meaning("model.summary_activation"),
    without_meaning("model.summary_proj_to_labels"),
    without_meaning("model.summary_first_dropout"),
};

}  // namespace

Table model_keys() {
  return {kKeys, std::size(kKeys)};
}

}  // namespace cadre
