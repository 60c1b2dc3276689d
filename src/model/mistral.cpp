// Mistral: a Llama whose layers may look back through a window, the same in all of them.

#include <limits>

#include "base/check.h"
#include "model/family_list.h"
#include "model/llama_shape.h"

namespace cadre::model {
namespace {

void read_window(ConfigReader& reader, ModelSpec& spec) {
  constexpr int64_t kWindowMax = std::numeric_limits<int32_t>::max();
  // Null is no window; only where the key is missing has transformers a default.
  if (!reader.has("sliding_window")) {
    reader.ignore({"sliding_window"});
    spec.window_of_layer.assign(static_cast<size_t>(spec.num_hidden_layers), 4096);
    return;
  }
  if (const auto window = reader.optional_integer("sliding_window", 1, kWindowMax)) {
    spec.window_of_layer.assign(static_cast<size_t>(spec.num_hidden_layers), *window);
  }
}

Result<ModelSpec> read_config(const Json& config, std::string_view source) {
  ConfigReader reader(config, source);
  ModelSpec spec = read_llama_shape(
      reader, source,
      {.intermediate_size = 14336, .num_key_value_heads = 8, .max_position_embeddings = 131072});
  spec.family = kMistral.model_type;
  read_window(reader, spec);
  reader.only("attention_bias", false, "Mistral has no biases");
  reader.only("mlp_bias", false, "Mistral has no biases");
  reader.refuse_unknown("Mistral");
  return reader.finish(spec);
}

Json write_config(const ModelSpec& spec) {
  Json config = write_llama_shape(spec);
  const int64_t window = spec.window_of(0);
  for (int64_t layer = 1; layer < spec.num_hidden_layers; ++layer) {
    CADRE_CHECK_EQ(spec.window_of(layer), window);
  }
  config["sliding_window"] = window == 0 ? Json(nullptr) : Json(window);
  return config;
}

}  // namespace

constinit const Family kMistral = {
    .model_type = "mistral",
    .architecture = "MistralForCausalLM",
    .prefix = "model.",
    .fused_query_key_value = false,
    .transposed_linears = false,
    .read_config = read_config,
    .write_config = write_config,
    .tensor_name = llama_tensor_name,
};

}  // namespace cadre::model
