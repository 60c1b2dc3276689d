#include "model/family_rope.h"

#include <gtest/gtest.h>

#include "model/family.h"

namespace cadre::model {
namespace {

using Kind = RopeScaling::Kind;

Result<ModelSpec> read(const char* keys) {
  Json config = {{"model_type", "llama"}, {"max_position_embeddings", 4096}};
  config.update(Json::parse(keys));
  return read_model_config(config, "c");
}

std::string refusal(const char* keys) {
  const auto spec = read(keys);
  return spec.ok() ? "accepted" : spec.error().message;
}

TEST(FamilyRope, ReadsTheOldNameOfTheKindAndTheNewOne) {
  for (const char* keys : {R"({"rope_scaling": {"type": "linear", "factor": 2.5}})",
                           R"({"rope_scaling": {"rope_type": "linear", "factor": 2.5}})",
                           R"({"rope_scaling": {"type": "su", "rope_type": "linear",
                                                "factor": 2.5}})",
                           R"({"rope_parameters": {"rope_type": "linear", "factor": 2.5,
                                                   "rope_theta": 10000.0}})"}) {
    const auto spec = read(keys);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->rope_scaling, (RopeScaling{.kind = Kind::kLinear, .factor = 2.5})) << keys;
    EXPECT_EQ(spec->rope_theta, 10000.0);
  }
}

TEST(FamilyRope, TakesThetaFromTheParametersOfTransformersFive) {
  const char* const keys = R"({"rope_theta": 500.0, "rope_parameters": {"rope_type": "default",
                               "rope_theta": 70000.0}})";
  EXPECT_EQ(read(keys)->rope_theta, 70000.0);
  EXPECT_EQ(read(keys)->rope_scaling, RopeScaling{});
  EXPECT_EQ(read(R"({"rope_theta": 500})")->rope_theta, 500.0);
  EXPECT_EQ(read(R"({"rope_theta": 500, "rope_parameters": {}})")->rope_theta, 500.0);
}

TEST(FamilyRope, ReadsParametersByKindOfLayerWhereTheyAreTheSame) {
  const char* const same = R"({"rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 2, "rope_theta": 7.0},
      "sliding_attention": {"rope_type": "linear", "factor": 2, "rope_theta": 7.0}}})";
  EXPECT_EQ(read(same)->rope_theta, 7.0);
  EXPECT_EQ(read(same)->rope_scaling.factor, 2.0);
  const char* const different = R"({"rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 7.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 8.0}}})";
  EXPECT_EQ(refusal(different).substr(0, 25), "c: rope_parameters: found");
}

TEST(FamilyRope, ReadsEveryKeyOfYarn) {
  const auto spec = read(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 1024, "beta_fast": 16, "beta_slow": 2, "truncate": false,
      "attention_factor": 1.5, "mscale": 0.7, "mscale_all_dim": 0.8, "finetuned": true}})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->rope_scaling, (RopeScaling{.kind = Kind::kYarn,
                                             .factor = 4.0,
                                             .original_max_position_embeddings = 1024,
                                             .beta_fast = 16.0,
                                             .beta_slow = 2.0,
                                             .truncate = false,
                                             .attention_factor = 1.5,
                                             .mscale = 0.7,
                                             .mscale_all_dim = 0.8}));
}

TEST(FamilyRope, FillsWhatYarnLeavesOut) {
  const RopeScaling bare = read(R"({"rope_scaling": {"type": "yarn", "factor": 4}})")->rope_scaling;
  EXPECT_EQ(
      bare,
      (RopeScaling{.kind = Kind::kYarn, .factor = 4.0, .original_max_position_embeddings = 4096}));
  // Without a factor it is the ratio of the two lengths; with one, the factor stands.
  EXPECT_EQ(read(R"({"rope_scaling": {"type": "yarn", "factor": null,
                     "original_max_position_embeddings": 1024}})")
                ->rope_scaling.factor,
            4.0);
  EXPECT_EQ(read(R"({"rope_scaling": {"type": "yarn", "factor": 32,
                     "original_max_position_embeddings": 1024}})")
                ->rope_scaling.factor,
            32.0);
  // Phi's habit: the original length beside the parameters goes first.
  EXPECT_EQ(read(R"({"original_max_position_embeddings": 512, "rope_scaling": {"type": "yarn",
                     "factor": 8, "original_max_position_embeddings": 1024}})")
                ->rope_scaling.original_max_position_embeddings,
            512);
}

TEST(FamilyRope, ReadsBackWhatItWrites) {
  for (const char* keys :
       {R"({"rope_theta": 12345.5, "rope_scaling": null})",
        R"({"rope_scaling": {"type": "linear", "factor": 2.5}})",
        R"({"rope_scaling": {"type": "dynamic", "factor": 2}})",
        R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1.5,
            "high_freq_factor": 3.5, "original_max_position_embeddings": 128}})",
        R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "mscale": 0.5}})",
        R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "truncate": false, "beta_fast": 9,
            "mscale": 0.5, "mscale_all_dim": 0.25, "attention_factor": 1.0}})"}) {
    const ModelSpec spec = read(keys).value();
    const Json written = write_model_config(spec, "float32");
    EXPECT_TRUE(read_model_config(written, "c").value() == spec) << written;
  }
}

TEST(FamilyRope, RefusesByName) {
  EXPECT_EQ(refusal(R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1]}})"),
            "c: rope_scaling.rope_type: found \"longrope\", allowed are default, linear, dynamic, "
            "llama3 and yarn");
  EXPECT_EQ(refusal(R"({"rope_scaling": {"type": "linear"}})"),
            "c: rope_scaling.factor: found nothing, this kind of scaling needs a number here");
  EXPECT_EQ(refusal(R"({"rope_scaling": {"type": "linear", "factor": 0.5}})"),
            "c: rope_scaling.factor: found 0.5, allowed is a number from 1 to 1e+06");
  EXPECT_EQ(refusal(R"({"rope_scaling": "linear"})"),
            "c: rope_scaling: found \"linear\", allowed are null and an object");
  EXPECT_EQ(refusal(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                        "high_freq_factor": 4}})"),
            "c: rope_scaling.high_freq_factor: found 4, allowed is more than low_freq_factor, "
            "which is 4");
  EXPECT_EQ(refusal(R"({"rope_scaling": {"type": "linear", "factor": 2, "short_factor": [1]}})"),
            "c: rope_scaling.short_factor: found [1], no known key of this kind of rotary scaling; "
            "remove it if it does not change what the model computes");
  EXPECT_EQ(refusal(R"({"rope_parameters": {"rope_type": "default",
                        "partial_rotary_factor": 0.25}})"),
            "c: rope_parameters.partial_rotary_factor: found 0.25, allowed is 1.0: rotation covers "
            "the whole head");
  EXPECT_EQ(refusal(R"({"rope_scaling": {"type": "linear", "factor": 2},
                        "rope_parameters": {"rope_type": "default"}})"),
            "c: rope_parameters: found {\"rope_type\":\"default\"}, rope_scaling says otherwise; "
            "remove one of the two");
  EXPECT_EQ(
      refusal(R"({"hidden_size": 64, "head_dim": 2,
                        "rope_scaling": {"rope_type": "dynamic", "factor": 2}})"),
      "c: rope_scaling.rope_type: found \"dynamic\", dynamic scaling needs a head_dim of 4 or "
      "more");
}

}  // namespace
}  // namespace cadre::model
