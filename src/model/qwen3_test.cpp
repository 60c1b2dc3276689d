#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read(const char* keys) {
  Json config = {{"architectures", {"Qwen3ForCausalLM"}}};
  config.update(Json::parse(keys));
  return read_model_config(config, "c");
}

TEST(Qwen3, ReadsAConfigOfTheHub) {
  // Qwen3 0.6B: heads together are twice as wide as the model.
  const auto spec = read(R"({"attention_bias": false, "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
      "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
      "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
      "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
      "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->qk_norm);
  EXPECT_FALSE(spec->qkv_bias);
  EXPECT_EQ(spec->query_width(), 2048);
  EXPECT_EQ(spec->rope_theta, 1e6);
  EXPECT_TRUE(read_model_config(write_model_config(*spec, "bfloat16"), "c").value() == *spec);
}

TEST(Qwen3, NormalisesEveryHeadOfQueriesAndKeys) {
  const ModelSpec spec = read("{}").value();
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(family_of(spec).tensor_name(Role::kQueryNorm, 5),
            "model.layers.5.self_attn.q_norm.weight");
  EXPECT_EQ(family_of(spec).tensor_name(Role::kKeyNorm, 5),
            "model.layers.5.self_attn.k_norm.weight");
}

TEST(Qwen3, PutsABiasOnTheOutputTooWhenAskedForBiases) {
  const ModelSpec spec = read(R"({"attention_bias": true})").value();
  EXPECT_TRUE(spec.qkv_bias);
  EXPECT_TRUE(spec.attention_output_bias);
  EXPECT_TRUE(read_model_config(write_model_config(spec, "float32"), "c").value() == spec);
}

}  // namespace
}  // namespace cadre::model
