#include "model/family.h"

#include <gtest/gtest.h>

#include <set>

namespace cadre::model {
namespace {

Json small(std::string_view architecture) {
  return Json{{"architectures", {architecture}}, {"vocab_size", 11}};
}

// What read_model_config() says about a Llama with these keys.
std::string refusal(const std::string& keys) {
  Json config = small("LlamaForCausalLM");
  config.update(Json::parse(keys));
  const auto spec = read_model_config(config, "config.json");
  return spec.ok() ? "accepted" : spec.error().message;
}

TEST(Family, RefusesAnArchitectureByNameAndListsThoseThatItHas) {
  const std::string list =
      "LlamaForCausalLM (llama), MistralForCausalLM (mistral), Qwen2ForCausalLM (qwen2), "
      "Qwen3ForCausalLM (qwen3) and GPT2LMHeadModel (gpt2)";
  EXPECT_EQ(read_model_config(small("MambaForCausalLM"), "m/config.json").error().message,
            "m/config.json: architectures: found \"MambaForCausalLM\", supported are " + list);
  EXPECT_EQ(read_model_config(Json{{"model_type", "t5"}}, "x").error().message,
            "x: model_type: found \"t5\", supported are " + list);
  EXPECT_EQ(read_model_config(Json::object(), "x").error().message,
            "x: model_type: found nothing, supported are " + list);
  EXPECT_FALSE(read_model_config(small("LlamaForSequenceClassification"), "x").ok());
  EXPECT_EQ(read_model_config(Json::array(), "x").error().message,
            "x: found array, wanted an object of keys");
}

TEST(Family, RefusesOddArchitecturesAndTypes) {
  const auto message = [](const char* text) {
    return read_model_config(Json::parse(text), "x").error().message.substr(0, 60);
  };
  EXPECT_EQ(message(R"({"architectures": "LlamaForCausalLM"})"),
            "x: architectures: found \"LlamaForCausalLM\", allowed is a lis");
  EXPECT_EQ(message(R"({"architectures": ["LlamaForCausalLM", "LlamaModel"]})").substr(0, 26),
            "x: architectures: found [\"");
  EXPECT_EQ(message(R"({"architectures": [7]})").substr(0, 33),
            "x: architectures: found 7, suppor");
  EXPECT_EQ(message(R"({"model_type": "gpt2", "architectures": ["LlamaForCausalLM"]})"),
            "x: model_type: found \"gpt2\", architectures says LlamaForCaus");
}

TEST(Family, GoesByTheModelTypeWhereNoArchitectureIsNamed) {
  for (const Family* family : families()) {
    const auto spec =
        read_model_config(Json{{"model_type", family->model_type}}, "run.yaml: model");
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->family, family->model_type);
    EXPECT_EQ(spec->vocab_size, 0);  // the tokenizer decides
    EXPECT_EQ(spec->bos_token_id, std::nullopt);
    EXPECT_EQ(&family_of(*spec), family);
  }
}

TEST(Family, ReadsBackWhatItWritesForEveryFamilyWithItsDefaults) {
  for (const Family* family : families()) {
    const ModelSpec spec = read_model_config(small(family->architecture), "x").value();
    const Json written = write_model_config(spec, "float16");
    EXPECT_EQ(written["model_type"], family->model_type);
    EXPECT_EQ(written["torch_dtype"], "float16");
    const auto again = read_model_config(written, "x");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(*again == spec) << written;
  }
}

TEST(Family, RefusesAnUnknownKeyAndNamesTheNearOne) {
  EXPECT_EQ(refusal(R"({"hiden_size": 64})"),
            "config.json: hiden_size: found 64, no known key of Llama; did you mean hidden_size?");
  EXPECT_EQ(refusal(R"({"embedding_multiplier": 12.0})"),
            "config.json: embedding_multiplier: found 12.0, no known key of Llama; remove it if it "
            "does not change what the model computes");
}

TEST(Family, PassesOverKeysThatSayNothing) {
  EXPECT_EQ(refusal(R"({"sliding_window": null, "_name_or_path": "x", "use_cache": true,
                        "torch_dtype": "bfloat16", "id2label": {"0": "A"}, "pad_token_id": -1})"),
            "accepted");
}

TEST(Family, NamesFileKeyFoundAndAllowedOfEveryWrongKeyAtOnce) {
  EXPECT_EQ(
      refusal(R"({"hidden_size": "64", "num_hidden_layers": 0, "rms_norm_eps": true,
                        "tie_word_embeddings": 1, "hidden_act": 3, "eos_token_id": [1, -2]})"),
      "config.json: hidden_size: found \"64\", allowed is an integer from 1 to 16777216\n"
      "config.json: num_hidden_layers: found 0, allowed is an integer from 1 to 65536\n"
      "config.json: rms_norm_eps: found true, allowed is a number from 1e-30 to 1\n"
      "config.json: tie_word_embeddings: found 1, allowed are true and false\n"
      "config.json: eos_token_id: found [1,-2], allowed is an integer from 0 up, or a list of "
      "them\n"
      "config.json: hidden_act: found 3, allowed is a string");
  EXPECT_EQ(refusal(R"({"num_hidden_layers": 18446744073709551615})"),
            "config.json: num_hidden_layers: found 18446744073709551615, allowed is an integer "
            "from 1 to 65536");
  EXPECT_EQ(refusal(R"({"hidden_size": 64.5})").substr(0, 37),
            "config.json: hidden_size: found 64.5,");
}

TEST(Family, ChecksDivisibility) {
  EXPECT_EQ(refusal(R"({"num_attention_heads": 6, "hidden_size": 48, "num_key_value_heads": 4})"),
            "config.json: num_key_value_heads: found 4, allowed are divisors of "
            "num_attention_heads, which is 6");
  EXPECT_EQ(refusal(R"({"num_attention_heads": 6, "hidden_size": 50})"),
            "config.json: hidden_size: found 50, allowed are multiples of num_attention_heads, "
            "which is 6, or any with head_dim given");
  EXPECT_EQ(refusal(R"({"num_attention_heads": 6, "hidden_size": 50, "head_dim": 8})"), "accepted");
  EXPECT_EQ(refusal(R"({"num_attention_heads": 6, "hidden_size": 54})"),
            "config.json: head_dim: found 9, allowed are even numbers: rotation turns pairs of "
            "channels");
}

TEST(Family, RefusesWhatTheBlockCannotCompute) {
  EXPECT_EQ(refusal(R"({"hidden_act": "gelu"})"),
            "config.json: hidden_act: found \"gelu\", allowed is \"silu\"");
  EXPECT_EQ(refusal(R"({"partial_rotary_factor": 0.5})"),
            "config.json: partial_rotary_factor: found 0.5, allowed is 1.0: rotation covers the "
            "whole head");
  EXPECT_EQ(refusal(R"({"attn_logit_softcapping": 50.0})"),
            "config.json: attn_logit_softcapping: found 50.0, allowed is null: scores are not "
            "capped");
  EXPECT_EQ(refusal(R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})"),
            "config.json: quantization_config: found {\"quant_method\":\"gptq\",\"bits\":4}, "
            "allowed is null: load the model's weights in F32, BF16 or F16");
  EXPECT_EQ(refusal(R"({"auto_map": {"AutoModelForCausalLM": "m.M"}})").substr(0, 21),
            "config.json: auto_map");
  EXPECT_EQ(refusal(R"({"sliding_window": 4096})").substr(0, 27), "config.json: sliding_window");
  EXPECT_EQ(refusal(R"({"pruned_heads": {"1": [0]}})").substr(0, 25), "config.json: pruned_heads");
  EXPECT_EQ(refusal(R"({"pruned_heads": {}})"), "accepted");
}

TEST(Family, KeepsTokenIdsOneManyAndNone) {
  const auto read = [](const char* keys) {
    Json config = small("LlamaForCausalLM");
    config.update(Json::parse(keys));
    return read_model_config(config, "x").value();
  };
  for (const char* keys :
       {R"({"bos_token_id": 1, "eos_token_id": 2})", R"({"eos_token_id": [3, 4]})",
        R"({"bos_token_id": null, "eos_token_id": null})"}) {
    const ModelSpec spec = read(keys);
    EXPECT_TRUE(read_model_config(write_model_config(spec, "float32"), "x").value() == spec);
  }
  EXPECT_EQ(read(R"({"eos_token_id": 2})").eos_token_ids, std::vector<int64_t>{2});
  // Absent would mean 1 and 2 to transformers, so nothing is written as null.
  EXPECT_TRUE(write_model_config(read("{}"), "float32")["eos_token_id"].is_null());
}

// G1 and G2: weights of other programs may need their q and k rows permuted. cadre reads and writes
// Hugging Face's layout alone, so no family permutes, and q, k and v are never renamed into another
// order.
TEST(Family, G1G2StoresQueriesAndKeysInHuggingFacesOrderUnderTheirOwnNames) {
  for (const Family* family : families()) {
    if (!family->fused_query_key_value) {
      EXPECT_EQ(family->tensor_name(Role::kQuery, 3), "model.layers.3.self_attn.q_proj.weight");
      EXPECT_EQ(family->tensor_name(Role::kKey, 3), "model.layers.3.self_attn.k_proj.weight");
    }
  }
}

// G7: whether there is a head of its own is a matter of the spec, not of which names a file has.
TEST(Family, G7TiedHeadsGoByTheSpecUnderEveryPrefix) {
  for (const Family* family : families()) {
    Json config = small(family->architecture);
    config["tie_word_embeddings"] = true;
    const ModelSpec spec = read_model_config(config, "x").value();
    EXPECT_TRUE(spec.tie_word_embeddings);
    // The embedding is found with the family's prefix and without it.
    const std::string embedding = family->tensor_name(Role::kTokenEmbedding, 0);
    const auto names = stored_names(spec, embedding);
    ASSERT_EQ(names.size(), 3u);
    EXPECT_EQ(names[0], embedding);
    EXPECT_EQ(std::string(family->prefix) + names[1], embedding);
    EXPECT_EQ(names[2], "lm_head.weight");
    EXPECT_EQ(stored_names(spec, family->tensor_name(Role::kHead, 0)),
              std::vector<std::string>{"lm_head.weight"});
  }
}

TEST(Family, KnowsTensorsThatAreNoParameters) {
  EXPECT_TRUE(is_stored_buffer("model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_TRUE(is_stored_buffer("h.11.attn.bias"));
  EXPECT_TRUE(is_stored_buffer("transformer.h.0.attn.masked_bias"));
  EXPECT_FALSE(is_stored_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_stored_buffer("model.layers.0.self_attn.q_proj.bias"));
}

}  // namespace
}  // namespace cadre::model
