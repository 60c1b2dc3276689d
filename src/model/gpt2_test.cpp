#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

Result<ModelSpec> read(const char* keys) {
  Json config = {{"architectures", {"GPT2LMHeadModel"}}};
  config.update(Json::parse(keys));
  return read_model_config(config, "c");
}

TEST(Gpt2, ReadsTheConfigOfTheHub) {
  const auto spec = read(R"({"activation_function": "gelu_new", "attn_pdrop": 0.1,
      "bos_token_id": 50256, "embd_pdrop": 0.2, "eos_token_id": 50256, "initializer_range": 0.02,
      "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
      "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.3,
      "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
      "summary_type": "cls_index", "summary_use_proj": true, "task_specific_params":
      {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->norm, NormKind::kLayer);
  EXPECT_EQ(spec->mlp, MlpKind::kGeluTanh);
  EXPECT_EQ(spec->positions, PositionKind::kLearned);
  EXPECT_EQ(spec->intermediate_size, 3072);
  EXPECT_EQ(spec->head_dim, 64);
  EXPECT_EQ(spec->num_key_value_heads, 12);
  EXPECT_TRUE(spec->qkv_bias && spec->attention_output_bias && spec->mlp_bias);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_TRUE(spec->depth_scaled_init);
  EXPECT_EQ(spec->embedding_dropout, 0.2);
  EXPECT_EQ(spec->residual_dropout, 0.3);
  EXPECT_EQ(spec->attention_dropout, 0.1);
  EXPECT_TRUE(read_model_config(write_model_config(*spec, "float32"), "c").value() == *spec);
}

TEST(Gpt2, TakesTheNamesOfOtherFamiliesForItsSizes) {
  const auto spec = read(R"({"hidden_size": 40, "num_attention_heads": 5, "num_hidden_layers": 3,
                             "max_position_embeddings": 17, "intermediate_size": 33})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->hidden_size, 40);
  EXPECT_EQ(spec->num_attention_heads, 5);
  EXPECT_EQ(spec->num_hidden_layers, 3);
  EXPECT_EQ(spec->max_position_embeddings, 17);
  EXPECT_EQ(spec->intermediate_size, 33);
  EXPECT_TRUE(read_model_config(write_model_config(*spec, "float32"), "c").value() == *spec);
  EXPECT_EQ(read(R"({"n_embd": 24, "hidden_size": 36})").error().message,
            "c: hidden_size: found 36, n_embd is 24; remove one of the two");
}

TEST(Gpt2, TakesANullInnerWidthForFourTimesTheOuter) {
  EXPECT_EQ(read(R"({"n_embd": 36, "n_inner": null})")->intermediate_size, 144);
  EXPECT_EQ(read(R"({"n_embd": 36, "n_inner": 50})")->intermediate_size, 50);
}

TEST(Gpt2, RefusesWhatTheBlockCannotCompute) {
  const auto message = [](const char* keys) { return read(keys).error().message; };
  EXPECT_EQ(message(R"({"scale_attn_by_inverse_layer_idx": true})"),
            "c: scale_attn_by_inverse_layer_idx: found true, allowed is false: all layers scale "
            "their scores alike");
  EXPECT_EQ(message(R"({"scale_attn_weights": false})").substr(0, 21), "c: scale_attn_weights");
  EXPECT_EQ(message(R"({"activation_function": "gelu"})"),
            "c: activation_function: found \"gelu\", allowed is \"gelu_new\" (also called "
            "gelu_pytorch_tanh and gelu_fast)");
  EXPECT_EQ(message(R"({"n_embd": 50, "n_head": 12})"),
            "c: n_embd: found 50, allowed are multiples of n_head, which is 12");
  EXPECT_EQ(message(R"({"add_cross_attention": true})").substr(0, 22), "c: add_cross_attention");
  EXPECT_TRUE(read(R"({"activation_function": "gelu_pytorch_tanh"})").ok());
  EXPECT_TRUE(read(R"({"n_embd": 27, "n_head": 9})").ok());  // heads of 3: nothing turns pairs
}

// G7: the hub's own file has neither the prefix nor a head.
TEST(Gpt2, G7FindsTensorsUnderBothPrefixes) {
  const ModelSpec spec = read("{}").value();
  const Family& family = family_of(spec);
  EXPECT_EQ(
      stored_names(spec, family.tensor_name(Role::kQueryKeyValue, 7)),
      (std::vector<std::string>{"transformer.h.7.attn.c_attn.weight", "h.7.attn.c_attn.weight"}));
  EXPECT_EQ(stored_names(spec, family.tensor_name(Role::kPositionEmbedding, 0))[1], "wpe.weight");
  EXPECT_TRUE(family.transposed_linears);
  EXPECT_TRUE(family.fused_query_key_value);
}

}  // namespace
}  // namespace cadre::model
