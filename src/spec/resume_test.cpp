#include "spec/resume.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/testing.h"

namespace cadre {
namespace {

constexpr std::string_view kText = R"(
model: {model_type: llama, hidden_size: 24, rope_scaling: {factor: 2}}
data: {sources: [{paths: /a}, {paths: /b, weight: 2}]}
training: {steps: 100, micro_batch_size: 4, gradient_accumulation_steps: 2}
)";

using Lines = std::vector<std::string>;

ResumeDifference after(const Lines& settings) {
  return compare_for_resume(spec_testing::loaded(kText).run,
                            spec_testing::loaded(kText, {.set = settings}).run);
}

TEST(Resume, TheSameConfigurationDiffersInNothing) {
  EXPECT_EQ(after({}).refused, Lines());
  EXPECT_EQ(after({}).reported, Lines());
  EXPECT_EQ(after({"output=elsewhere", "data.cache_directory=/c"}).reported, Lines());
}

TEST(Resume, RefusesByNameWhatMakesAnotherRun) {
  EXPECT_EQ(after({"training.seed=2"}).refused, Lines{"training.seed: 1 in the saved run, 2 now"});
  EXPECT_EQ(after({"data.sequence_length=64"}).refused,
            Lines{"data.sequence_length: 256 in the saved run, 64 now"});
  EXPECT_EQ(after({"model.hidden_size=48"}).refused,
            Lines{"model.hidden_size: 24 in the saved run, 48 now"});
  EXPECT_EQ(after({"model.rope_scaling.factor=4"}).refused,
            Lines{"model.rope_scaling.factor: 2.0 in the saved run, 4.0 now"});
  EXPECT_EQ(after({"model.head_dim=8"}).refused,
            Lines{"model.head_dim: not given in the saved run, 8 now"});
  EXPECT_EQ(after({"data.packing=document"}).refused,
            Lines{"data.packing: concat in the saved run, document now"});
  EXPECT_EQ(after({"data.shuffle=false"}).refused,
            Lines{"data.shuffle: true in the saved run, false now"});
  EXPECT_EQ(after({"training.optimizer=lion"}).refused,
            Lines{"training.optimizer: adamw in the saved run, lion now"});
  EXPECT_EQ(after({"data.sources[1].weight=3"}).refused,
            Lines{"data.sources[1].weight: 2.0 in the saved run, 3.0 now"});
  EXPECT_EQ(after({"data.sources=[{paths: /a}]"}).refused,
            Lines{"data.sources: 2 elements in the saved run, 1 elements now"});
  EXPECT_EQ(after({"training.parameter_groups=[{parameters: x, frozen: true}]"}).refused,
            Lines{"training.parameter_groups: 0 elements in the saved run, 1 elements now"});
}

TEST(Resume, TheGlobalBatchStaysButMayBeCutOtherwise) {
  const ResumeDifference cut =
      after({"training.micro_batch_size=8", "training.gradient_accumulation_steps=1"});
  EXPECT_EQ(cut.refused, Lines());
  EXPECT_EQ(cut.reported,
            (Lines{"training.micro_batch_size: 4 in the saved run, 8 now",
                   "training.gradient_accumulation_steps: 2 in the saved run, 1 now"}));
  EXPECT_EQ(after({"training.micro_batch_size=5"}).refused,
            Lines{"the global batch (micro_batch_size times gradient_accumulation_steps times "
                  "data_parallel_size): 8 in the saved run, 10 now"});
}

TEST(Resume, ReportsWhatMayChange) {
  EXPECT_EQ(after({"training.steps=200"}).reported,
            Lines{"training.steps: 100 in the saved run, 200 now"});
  EXPECT_EQ(after({"training.epochs=2"}).reported,
            (Lines{"training.steps: 100 in the saved run, not given now",
                   "training.epochs: not given in the saved run, 2.0 now"}));
  EXPECT_EQ(after({"training.precision=bf16"}).reported,
            Lines{"training.precision: fp32 in the saved run, bf16 now"});
  EXPECT_EQ(after({"tokenizer.from=/elsewhere"}).refused, Lines());
  EXPECT_EQ(after({"threads=2"}).reported, Lines{"threads: auto in the saved run, 2 now"});
  EXPECT_EQ(after({"training.learning_rate=1e-5"}).refused, Lines());
}

}  // namespace
}  // namespace cadre
