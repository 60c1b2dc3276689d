// Qwen3 (dense): a Llama whose q and k heads are normalised, with a head_dim of its own.

#include "model/family_list.h"
#include "model/llama_shape.h"
#include "model/qwen2_windows.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read_config(const Json& config, std::string_view source) {
  ConfigReader reader(config, source);
  ModelSpec spec = read_llama_shape(reader, source,
                                    {.intermediate_size = 22016,
                                     .num_key_value_heads = 32,
                                     .head_dim = 128,
                                     .max_position_embeddings = 32768});
  spec.family = kQwen3.model_type;
  spec.qk_norm = true;
  spec.qkv_bias = reader.boolean("attention_bias", false);
  spec.attention_output_bias = spec.qkv_bias;
  read_qwen_windows(reader, spec);
  reader.only("mlp_bias", false, "Qwen3 has no biases in the MLP");
  reader.refuse_unknown("Qwen3");
  return reader.finish(spec);
}

Json write_config(const ModelSpec& spec) {
  Json config = write_llama_shape(spec);
  config["attention_bias"] = spec.qkv_bias;
  write_qwen_windows(spec, config);
  return config;
}

}  // namespace

constinit const Family kQwen3 = {
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .prefix = "model.",
    .fused_query_key_value = false,
    .transposed_linears = false,
    .read_config = read_config,
    .write_config = write_config,
    .tensor_name = llama_tensor_name,
};

}  // namespace cadre::model
