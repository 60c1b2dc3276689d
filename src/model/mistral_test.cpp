#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read(const char* keys) {
  Json config = {{"architectures", {"MistralForCausalLM"}}, {"num_hidden_layers", 3}};
  config.update(Json::parse(keys));
  return read_model_config(config, "c");
}

TEST(Mistral, HasOneWindowInEveryLayer) {
  const ModelSpec spec = read(R"({"sliding_window": 100})").value();
  EXPECT_EQ(spec.window_of_layer, (std::vector<int64_t>{100, 100, 100}));
  EXPECT_EQ(spec.window_of(2), 100);
  EXPECT_TRUE(read_model_config(write_model_config(spec, "float32"), "c").value() == spec);
}

TEST(Mistral, TakesANullForNoWindowAndAMissingKeyForTheDefault) {
  const ModelSpec none = read(R"({"sliding_window": null})").value();
  EXPECT_TRUE(none.window_of_layer.empty());
  EXPECT_TRUE(write_model_config(none, "float32")["sliding_window"].is_null());
  EXPECT_TRUE(read_model_config(write_model_config(none, "float32"), "c").value() == none);
  EXPECT_EQ(read("{}")->window_of(1), 4096);
}

TEST(Mistral, ReadsNemoWhoseHeadsAreNarrowerThanTheirShare) {
  const ModelSpec spec = read(R"({"hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128,
      "num_key_value_heads": 8, "sliding_window": null, "rope_theta": 1000000.0})")
                             .value();
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.query_width(), 4096);
  EXPECT_EQ(spec.key_value_width(), 1024);
}

TEST(Mistral, TakesTransformersDefaults) {
  const ModelSpec spec = read("{}").value();
  EXPECT_EQ(spec.hidden_size, 4096);
  EXPECT_EQ(spec.intermediate_size, 14336);
  EXPECT_EQ(spec.num_key_value_heads, 8);
  EXPECT_EQ(spec.max_position_embeddings, 131072);
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  // A null, unlike a missing key, means as many as query heads.
  EXPECT_EQ(read(R"({"num_key_value_heads": null})")->num_key_value_heads, 32);
}

TEST(Mistral, RefusesBiases) {
  EXPECT_EQ(read(R"({"attention_bias": true})").error().message,
            "c: attention_bias: found true, allowed is false: Mistral has no biases");
  EXPECT_EQ(read(R"({"sliding_window": 0})").error().message,
            "c: sliding_window: found 0, allowed is an integer from 1 to 2147483647");
}

}  // namespace
}  // namespace cadre::model
