// Qwen2 and Qwen2.5: a Llama with biases on q, k and v (always), and windows on its upper layers.

#include "model/family_list.h"
#include "model/llama_shape.h"
#include "model/qwen2_windows.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read_config(const Json& config, std::string_view source) {
  ConfigReader reader(config, source);
  ModelSpec spec = read_llama_shape(
      reader, source,
      {.intermediate_size = 22016, .num_key_value_heads = 32, .max_position_embeddings = 32768});
  spec.family = kQwen2.model_type;
  spec.qkv_bias = true;
  read_qwen_windows(reader, spec);
  reader.only("attention_bias", true, "Qwen2 always has biases on q, k and v");
  reader.only("mlp_bias", false, "Qwen2 has no biases in the MLP");
  reader.only("use_mrope", false, "positions have one dimension");
  reader.refuse_unknown("Qwen2");
  return reader.finish(spec);
}

Json write_config(const ModelSpec& spec) {
  Json config = write_llama_shape(spec);
  write_qwen_windows(spec, config);
  return config;
}

}  // namespace

constinit const Family kQwen2 = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .prefix = "model.",
    .fused_query_key_value = false,
    .transposed_linears = false,
    .read_config = read_config,
    .write_config = write_config,
    .tensor_name = llama_tensor_name,
};

}  // namespace cadre::model
