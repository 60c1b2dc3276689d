#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read(const char* keys) {
  Json config = {{"architectures", {"Qwen2ForCausalLM"}}, {"num_hidden_layers", 4}};
  config.update(Json::parse(keys));
  return read_model_config(config, "c");
}

using Windows = std::vector<int64_t>;

TEST(Qwen2, ReadsAConfigOfTheHub) {
  // Qwen2.5 0.5B.
  const auto spec = read(R"({"attention_dropout": 0.0, "bos_token_id": 151643,
      "eos_token_id": 151645, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
      "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 21,
      "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false,
      "use_sliding_window": false, "vocab_size": 151936})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->qkv_bias);
  EXPECT_FALSE(spec->attention_output_bias);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_TRUE(spec->window_of_layer.empty());
  EXPECT_EQ(spec->head_dim, 64);
  EXPECT_EQ(family_of(*spec).tensor_name(Role::kKeyBias, 2),
            "model.layers.2.self_attn.k_proj.bias");
}

TEST(Qwen2, PutsWindowsOnTheLayersFromMaxWindowLayersOn) {
  const char* const keys =
      R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 3})";
  EXPECT_EQ(read(keys)->window_of_layer, (Windows{0, 0, 0, 9}));
  EXPECT_EQ(read(R"({"use_sliding_window": true, "sliding_window": 9})")->window_of_layer,
            Windows{});  // the default, 28 layers, is more than there are
  EXPECT_EQ(read(R"({"use_sliding_window": true, "max_window_layers": 0})")->window_of_layer,
            (Windows{4096, 4096, 4096, 4096}));
  EXPECT_EQ(read(R"({"use_sliding_window": true, "sliding_window": null,
                     "max_window_layers": 0})")
                ->window_of_layer,
            Windows{});
}

TEST(Qwen2, LetsLayerTypesSayWhichLayersHaveAWindow) {
  const auto spec = read(R"({"use_sliding_window": true, "sliding_window": 9,
      "max_window_layers": 3, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention"]})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->window_of_layer, (Windows{9, 0, 9, 0}));
  EXPECT_TRUE(read_model_config(write_model_config(*spec, "float32"), "c").value() == *spec);
}

TEST(Qwen2, ReadsBackWhatItWrites) {
  for (const char* keys :
       {R"({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 2})",
        R"({"use_sliding_window": false, "head_dim": 32})"}) {
    const ModelSpec spec = read(keys).value();
    EXPECT_TRUE(read_model_config(write_model_config(spec, "float32"), "c").value() == spec);
  }
}

TEST(Qwen2, RefusesLayerTypesThatContradict) {
  const auto message = [](const char* keys) { return read(keys).error().message; };
  EXPECT_EQ(message(R"({"layer_types": ["full_attention"]})"),
            "c: layer_types: found [\"full_attention\"], allowed is a list of 4 kinds, as many as "
            "num_hidden_layers");
  EXPECT_EQ(message(R"({"num_hidden_layers": 1, "layer_types": ["chunked_attention"]})"),
            "c: layer_types: found [\"chunked_attention\"], allowed are full_attention and "
            "sliding_attention");
  EXPECT_EQ(message(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]})"),
            "c: layer_types: found [\"sliding_attention\"], a window needs use_sliding_window: "
            "true and a number as sliding_window");
  EXPECT_EQ(message(R"({"attention_bias": false})"),
            "c: attention_bias: found false, allowed is true: Qwen2 always has biases on q, k and "
            "v");
}

}  // namespace
}  // namespace cadre::model
