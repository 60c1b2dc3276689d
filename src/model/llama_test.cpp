#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

// Llama 3.1 8B as the hub has it.
const char* const kLlama31 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 128256})";

TEST(Llama, ReadsAConfigOfTheHub) {
  const ModelSpec spec = read_model_config(Json::parse(kLlama31), "config.json").value();
  ModelSpec wanted;
  wanted.family = "llama";
  wanted.vocab_size = 128256;
  wanted.hidden_size = 4096;
  wanted.intermediate_size = 14336;
  wanted.num_hidden_layers = 32;
  wanted.num_attention_heads = 32;
  wanted.num_key_value_heads = 8;
  wanted.head_dim = 128;
  wanted.max_position_embeddings = 131072;
  wanted.norm_epsilon = 1e-5;
  wanted.rope_theta = 500000.0;
  wanted.rope_scaling = {.kind = RopeScaling::Kind::kLlama3,
                         .factor = 8.0,
                         .original_max_position_embeddings = 8192,
                         .low_freq_factor = 1.0,
                         .high_freq_factor = 4.0};
  wanted.bos_token_id = 128000;
  wanted.eos_token_ids = {128001, 128008, 128009};
  EXPECT_TRUE(spec == wanted);
}

TEST(Llama, ReadsBackWhatItWrites) {
  const ModelSpec spec = read_model_config(Json::parse(kLlama31), "config.json").value();
  const Json written = write_model_config(spec, "bfloat16");
  EXPECT_EQ(written["architectures"], Json::parse(R"(["LlamaForCausalLM"])"));
  EXPECT_EQ(written["torch_dtype"], "bfloat16");
  EXPECT_TRUE(read_model_config(written, "config.json").value() == spec);
}

TEST(Llama, ReadsAndWritesTheDropoutOfAttention) {
  const Json config = {{"model_type", "llama"}, {"attention_dropout", 0.1}};
  const ModelSpec spec = read_model_config(config, "c").value();
  EXPECT_EQ(spec.attention_dropout, 0.1);
  EXPECT_EQ(write_model_config(spec, "float32")["attention_dropout"], 0.1);
  const Json all = {{"model_type", "llama"}, {"attention_dropout", 1.0}};
  EXPECT_FALSE(read_model_config(all, "c").ok());
}

TEST(Llama, PutsBiasesWhereTheConfigAsks) {
  const auto read = [](const char* keys) {
    Json config = {{"model_type", "llama"}};
    config.update(Json::parse(keys));
    return read_model_config(config, "c").value();
  };
  const ModelSpec attention = read(R"({"attention_bias": true})");
  EXPECT_TRUE(attention.qkv_bias && attention.attention_output_bias && !attention.mlp_bias);
  const ModelSpec mlp = read(R"({"mlp_bias": true})");
  EXPECT_TRUE(!mlp.qkv_bias && !mlp.attention_output_bias && mlp.mlp_bias);
  for (const ModelSpec& spec : {attention, mlp}) {
    EXPECT_TRUE(read_model_config(write_model_config(spec, "float32"), "c").value() == spec);
  }
  EXPECT_EQ(family_of(mlp).tensor_name(Role::kGateBias, 1), "model.layers.1.mlp.gate_proj.bias");
}

TEST(Llama, TakesTransformersDefaults) {
  const ModelSpec spec = read_model_config(Json{{"model_type", "llama"}}, "c").value();
  EXPECT_EQ(spec.hidden_size, 4096);
  EXPECT_EQ(spec.intermediate_size, 11008);
  EXPECT_EQ(spec.num_key_value_heads, 32);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.max_position_embeddings, 2048);
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  EXPECT_EQ(spec.rope_theta, 10000.0);
}

}  // namespace
}  // namespace cadre::model
