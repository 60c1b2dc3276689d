// Llama 1 to 3.x: RMSNorm, rotary positions, SwiGLU, grouped heads; biases where the config asks.

#include "model/family_list.h"
#include "model/llama_shape.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read_config(const Json& config, std::string_view source) {
  ConfigReader reader(config, source);
  ModelSpec spec = read_llama_shape(reader, source,
                                    {.intermediate_size = 11008, .max_position_embeddings = 2048});
  spec.family = kLlama.model_type;
  spec.qkv_bias = reader.boolean("attention_bias", false);
  spec.attention_output_bias = spec.qkv_bias;
  spec.mlp_bias = reader.boolean("mlp_bias", false);
  reader.refuse_unknown("Llama");
  return reader.finish(spec);
}

Json write_config(const ModelSpec& spec) {
  Json config = write_llama_shape(spec);
  config["attention_bias"] = spec.qkv_bias;
  config["mlp_bias"] = spec.mlp_bias;
  return config;
}

}  // namespace

constinit const Family kLlama = {
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .prefix = "model.",
    .fused_query_key_value = false,
    .transposed_linears = false,
    .read_config = read_config,
    .write_config = write_config,
    .tensor_name = llama_tensor_name,
};

}  // namespace cadre::model
