#include "spec/set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "spec/testing.h"

namespace cadre {
namespace {

constexpr std::string_view kText = R"(
model: {model_type: llama, rope_scaling: {factor: 2, rope_type: linear}}
tokenizer: {from: tok}
data:
  sources:
    - {paths: [a.txt, b.txt], weight: 1}
    - paths: c.txt
training:
  epochs: 3
  precision: fp32
  per_device_train_batch_size: 4
  warmup_ratio: 0.1
)";

RunSpec run(const std::vector<std::string>& settings) {
  return spec_testing::loaded(kText, {.set = settings}).run;
}

std::string refusal(const std::vector<std::string>& settings) {
  return spec_testing::refusal(kText, {.set = settings});
}

TEST(Set, OverridesTheFileAndLaterOnesWin) {
  EXPECT_EQ(run({"training.learning_rate=2e-5"}).training.schedule.learning_rate, 2e-5);
  EXPECT_EQ(run({"training.seed=3", "training.seed=4"}).training.seed, 4u);
  EXPECT_EQ(run({"sample.prompt=Once: upon # a = time"}).sample.prompt, "Once: upon # a = time");
  EXPECT_EQ(run({"sample.prompt="}).sample.prompt, "");
  EXPECT_EQ(run({"name=no"}).name, "no");
  EXPECT_EQ(run({"training.gradient_checkpointing=true"}).training.recompute, Recompute::kFull);
}

TEST(Set, TakesThePlaceOfOtherSpellings) {
  EXPECT_EQ(run({"training.micro_batch_size=7"}).training.micro_batch_size, 7);
  EXPECT_EQ(run({"training.bf16=true"}).training.precision, Precision::kBf16);
  EXPECT_EQ(run({"training.per_device_train_batch_size=6"}).training.micro_batch_size, 6);
}

TEST(Set, TakesThePlaceOfTheAlternative) {
  const TrainingSpec training = run({"training.max_steps=20", "training.warmup_steps=2"}).training;
  EXPECT_EQ(training.steps, 20);
  EXPECT_EQ(training.epochs, std::nullopt);
  EXPECT_EQ(training.schedule.warmup_steps, 2);
  EXPECT_EQ(training.schedule.warmup_ratio, std::nullopt);
  EXPECT_EQ(run({"tokenizer.train.vocab_size=500"}).tokenizer->from, "");
}

TEST(Set, NullGoesBackToTheDefault) {
  EXPECT_EQ(run({"training.warmup_ratio=null"}).training.schedule.warmup_ratio, std::nullopt);
  EXPECT_EQ(run({"training.steps=5", "training.epochs=null"}).training.steps, 5);
  EXPECT_EQ(run({"tokenizer.from=null"}).tokenizer, std::nullopt);
  EXPECT_EQ(run({"training.micro_batch_size=null"}).training.micro_batch_size,
            TrainingSpec().micro_batch_size);
  // In config.json null is a value.
  EXPECT_TRUE(run({"model.sliding_window=null"}).model.config.at("sliding_window").is_null());
}

TEST(Set, ReachesIntoLists) {
  const RunSpec changed = run({"data.sources[1].weight=2.5", "data.sources.0.paths[1]=/z.txt",
                               "data.sources[2].paths=*.md"});
  EXPECT_EQ(changed.data.sources[1].weight, 2.5);
  EXPECT_EQ(changed.data.sources[0].paths, (std::vector<std::string>{"/conf/a.txt", "/z.txt"}));
  // What the command line reads is relative to where it is typed.
  EXPECT_EQ(changed.data.sources[2].paths,
            std::vector<std::string>{std::filesystem::current_path().string() + "/*.md"});
}

TEST(Set, TakesWholeListsAndMaps) {
  const RunSpec changed = run({"data.validation=[{paths: /v.txt, format: jsonl}]",
                               "model={model_type: gpt2, n_embd: 8}", "data.sources=[]"});
  EXPECT_EQ(changed.data.validation[0].paths, std::vector<std::string>{"/v.txt"});
  EXPECT_EQ(changed.model.config.dump(), R"({"model_type":"gpt2","n_embd":8})");
  EXPECT_TRUE(changed.data.sources.empty());
}

TEST(Set, NamesTheSettingInEveryMessage) {
  EXPECT_EQ(refusal({"training.steps=ten"}),
            "--set training.steps: found ten; allowed: a whole number, at least 1 and at most "
            "1000000000000000");
  EXPECT_EQ(refusal({"training.stesp=10"}),
            "--set training.stesp: unknown key; did you mean \"steps\"?");
  EXPECT_EQ(refusal({"data.sources[0].weight=0"}),
            "--set data.sources[0].weight: found 0; allowed: a number, above 0");
  EXPECT_EQ(refusal({"data.sources[3].weight=1"}),
            "--set data.sources[3].weight: element 3 of a list of 2; allowed: 0 to 2, the last of "
            "which appends");
  EXPECT_EQ(refusal({"data.sources[2].weight=1"}),
            "--set data.sources[2].weight: data.sources[2].paths: not given; allowed: a list of at "
            "least one "
            "path");
  EXPECT_EQ(refusal({"training[0]=1"}), "--set training[0]: element 0 of what is not a list");
  EXPECT_EQ(refusal({"name.x=1"}), "--set name.x: name: found a map; allowed: a text");
}

TEST(Set, RefusesWhatIsNoSetting) {
  for (const std::string text : {"training.steps", "=3", ".a=3", "a..b=3", "a[x]=3", "a[=3",
                                 "[0]=3", "a[0]b=3", "a.=3", "0=1"}) {
    EXPECT_EQ(refusal({text}),
              "--set " + text + ": is not of the form a.b=value or a.b[0].c=value");
  }
  EXPECT_EQ(refusal({"training.steps=[1"}),
            "--set training.steps: the value is not YAML (--set training.steps:1:1: a list or a "
            "map where a key is expected; is a bracket open?)");
}

}  // namespace
}  // namespace cadre
