#include "spec/read.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "spec/testing.h"

namespace cadre {
namespace {

using spec_testing::kModel;
using spec_testing::loaded;
using spec_testing::refusal;
using spec_testing::with_training;

TEST(ReadRun, ReadsTheKeysOfAFineTuningVerbatim) {
  const TrainingSpec training = loaded(std::string(kModel) + R"(
training:
  # effective batch = micro_batch * gradient_accumulation * replicas
  micro_batch_size: 1
  gradient_accumulation_steps: 32

  gradient_checkpointing: true
  activation_checkpointing_granularity: selective

  precision: bf16

  learning_rate: 2e-5
  lr_scheduler: cosine
  warmup_ratio: 0.03

  optimizer: adamw_torch_fused
  weight_decay: 0.01
  epochs: 1.5
)")
                                    .run.training;
  EXPECT_EQ(training.micro_batch_size, 1);
  EXPECT_EQ(training.gradient_accumulation_steps, 32);
  EXPECT_EQ(training.recompute, Recompute::kSelective);
  EXPECT_EQ(training.precision, Precision::kBf16);
  EXPECT_EQ(training.schedule.learning_rate, 2e-5);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::kCosine);
  EXPECT_EQ(training.schedule.min_lr_ratio, 0.1);
  EXPECT_EQ(training.schedule.warmup_ratio, 0.03);
  EXPECT_EQ(training.schedule.warmup_steps, std::nullopt);
  EXPECT_EQ(training.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(training.optimizer.weight_decay, 0.01);
  EXPECT_EQ(training.epochs, 1.5);
  EXPECT_EQ(training.steps, std::nullopt);
}

TEST(ReadRun, GradientCheckpointingAloneIsFull) {
  EXPECT_EQ(loaded(with_training("  gradient_checkpointing: true\n")).run.training.recompute,
            Recompute::kFull);
  EXPECT_EQ(loaded(with_training("")).run.training.recompute, Recompute::kNone);
  EXPECT_EQ(loaded(with_training("  gradient_checkpointing: false\n"
                                 "  activation_checkpointing_granularity: full\n"))
                .run.training.recompute,
            Recompute::kNone);
  EXPECT_EQ(refusal(with_training("  activation_checkpointing_granularity: full\n")),
            "run.yaml:4:41: training.activation_checkpointing_granularity: given without "
            "gradient_checkpointing; allowed: beside gradient_checkpointing: true, or false, which "
            "switches it off");
}

TEST(ReadRun, KeepsTheKeysOfConfigJsonInTheOrderOfTheSchema) {
  const ModelSource model = loaded(R"(
model:
  rope_scaling: {factor: 8, rope_type: llama3}
  hidden_size: 24
  sliding_window: null
  model_type: mistral
  eos_token_id: [1, 2]
  architectures: [MistralForCausalLM]
training: {steps: 1}
)")
                                .run.model;
  EXPECT_EQ(model.config.dump(),
            R"({"model_type":"mistral","architectures":["MistralForCausalLM"],)"
            R"("hidden_size":24,"sliding_window":null,)"
            R"("eos_token_id":[1,2],"rope_scaling":{"rope_type":"llama3","factor":8.0}})");
}

TEST(ReadRun, TheVocabularyIsThatOfATokenizerThatIsTrained) {
  const RunSpec run = loaded(
                          "model: {hidden_size: 8, model_type: llama}\n"
                          "tokenizer: {train: {vocab_size: 512}}\ntraining: {steps: 1}\n")
                          .run;
  EXPECT_EQ(run.model.config.dump(), R"({"model_type":"llama","vocab_size":512,"hidden_size":8})");
  EXPECT_EQ(run.tokenizer->train_vocab_size, 512);
}

TEST(ReadRun, ReadPathsAreRelativeToTheFileAndWrittenOnesToTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path().string();
  const RunSpec run = loaded(
                          "name: try\nmodel: {from: ../models/tiny/}\ntraining: {steps: 1}\n"
                          "data:\n  cache_directory: cache\n"
                          "  sources: [{paths: [a.txt, /b/*.txt]}, {paths: './c d'}]\n")
                          .run;
  EXPECT_EQ(run.model.from, "/models/tiny");
  EXPECT_EQ(run.data.sources[0].paths, (std::vector<std::string>{"/conf/a.txt", "/b/*.txt"}));
  EXPECT_EQ(run.data.sources[1].paths, (std::vector<std::string>{"/conf/c d"}));
  EXPECT_EQ(run.data.cache_directory, here + "/cache");
  EXPECT_EQ(run.output, here + "/runs/try");
  EXPECT_EQ(loaded(with_training("")).run.name, "run");  // of run.yaml
  EXPECT_EQ(loaded(with_training(""), {.output = "elsewhere"}).run.output, here + "/elsewhere");
}

TEST(ReadRun, SuggestsTheKeyThatWasMeant) {
  EXPECT_EQ(refusal(with_training("  learning_rte: 1e-3\n")),
            "run.yaml:4:3: training.learning_rte: unknown key; did you mean \"learning_rate\"?");
  EXPECT_EQ(refusal(with_training("") + "trainning: {}\n"),
            "run.yaml:4:1: trainning: unknown key; did you mean \"training\"?");
  EXPECT_EQ(refusal(with_training("") + "learning_rate: 1e-3\n"),
            "run.yaml:4:1: learning_rate: unknown key; did you mean \"training.learning_rate\"?");
  EXPECT_EQ(refusal(with_training("  per_device_train_bach_size: 2\n")),
            "run.yaml:4:3: training.per_device_train_bach_size: unknown key; did you mean "
            "\"per_device_train_batch_size\"?");
  EXPECT_EQ(refusal(with_training("") + "checkpoint: {bananas: 1}\n"),
            "run.yaml:4:14: checkpoint.bananas: unknown key; allowed here: every, keep and "
            "save_optimizer");
  EXPECT_EQ(refusal(with_training("") + "data: {sources: [{paths: a, wieght: 2}]}\n"),
            "run.yaml:4:29: data.sources[0].wieght: unknown key; did you mean \"weight\"?");
  EXPECT_EQ(
      refusal(with_training("") + "checkpoint.every: 1\n"),
      "run.yaml:4:1: checkpoint.every: unknown key; a dot does not lead into a section, write "
      "\"checkpoint:\" and the rest indented under it");
}

TEST(ReadRun, NamesWhatWasFoundAndWhatIsAllowed) {
  const auto refused = [](std::string_view lines) { return refusal(with_training(lines)); };
  EXPECT_EQ(refused("  micro_batch_size: many\n"),
            "run.yaml:4:21: training.micro_batch_size: found many; allowed: a whole number, at "
            "least 1 and at most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size: 1.5\n"),
            "run.yaml:4:21: training.micro_batch_size: found 1.5, which is not whole; allowed: a "
            "whole number, at least 1 and at most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size: 010\n"),
            "run.yaml:4:21: training.micro_batch_size: found 010, with a leading zero, which some "
            "readers take for octal; write it without; allowed: a whole number, at least 1 and at "
            "most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size: \"8\"\n"),
            "run.yaml:4:21: training.micro_batch_size: found \"8\", a text; remove the quotes; "
            "allowed: a whole number, at least 1 and at most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size: [8]\n"),
            "run.yaml:4:21: training.micro_batch_size: found a list; allowed: a whole number, at "
            "least 1 and at most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size: {a: 1}\n"),
            "run.yaml:4:21: training.micro_batch_size: found a map; allowed: a whole number, at "
            "least 1 and at most 2147483647");
  EXPECT_EQ(refused("  micro_batch_size:\n"),
            "run.yaml:4:3: training.micro_batch_size: found nothing; allowed: a whole number, at "
            "least 1 and at most 2147483647");
  EXPECT_EQ(
      refused("  gradient_checkpointing: yes\n"),
      "run.yaml:4:27: training.gradient_checkpointing: found yes, a boolean only of YAML 1.1; "
      "allowed: true or false");
  EXPECT_EQ(refused("  optimizer: adamx\n"),
            "run.yaml:4:14: training.optimizer: found adamx; did you mean \"adamw\"?; allowed: one "
            "of adamw, sgd, lion, muon, adamw_torch, adamw_torch_fused, adamw_hf, adamw_apex_fused "
            "and lion_32bit");
  EXPECT_EQ(refused("  parameter_groups: x\n"),
            "run.yaml:4:21: training.parameter_groups: found x; allowed: a list of maps");
  EXPECT_EQ(refused("  parameter_groups: [x]\n"),
            "run.yaml:4:22: training.parameter_groups[0]: found x; allowed: a map");
  EXPECT_EQ(refused("  parameter_groups: [{frozen: true}]\n"),
            "run.yaml:4:22: training.parameter_groups[0].parameters: not given; allowed: a list of "
            "texts");
  EXPECT_EQ(refusal("model: 3\ntraining: {steps: 1}\n"),
            "run.yaml:1:8: model: found a value; allowed: a map of keys");
  EXPECT_EQ(refusal("- a\n"),
            "run.yaml:1:1: a configuration is a map of keys; found something else");
  EXPECT_EQ(refusal(with_training("") + "threads: some\n"),
            "run.yaml:4:10: threads: found some; allowed: auto or a whole number, at least 1 and "
            "at most 1024");
  EXPECT_EQ(refusal(with_training("") + "data: {sources: [{paths: ''}]}\n"),
            "run.yaml:4:26: data.sources[0].paths: found \"\"; allowed: a path");
}

TEST(ReadRun, ASourceNamesAtLeastOnePath) {
  const std::string run = with_training("");
  EXPECT_EQ(refusal(run + "data: {sources: [{paths: []}]}\n"),
            "run.yaml:4:26: data.sources[0].paths: found an empty list; allowed: a list of at "
            "least one path");
  EXPECT_EQ(
      refusal(run + "data: {sources: [{paths: [a], exclude: []}], validation: [{paths: []}]}\n"),
      "run.yaml:4:67: data.validation[0].paths: found an empty list; allowed: a list of at "
      "least one path");
  EXPECT_EQ(refusal(run, {.set = {"data.sources[0].paths=[]"}}),
            "--set data.sources[0].paths: found an empty list; allowed: a list of at least one "
            "path");
}

TEST(ReadRun, RefusesATextThatNoFileOrSystemCallHolds) {
  const std::string run = with_training("");
  EXPECT_EQ(refusal(run + "name: \"a\\0b\"\n"),
            "run.yaml:4:7: name: found \"a\\u0000b\", which has a zero byte; allowed: a text");
  EXPECT_EQ(refusal(run + "output: \"q\\0b\"\n"),
            "run.yaml:4:9: output: found \"q\\u0000b\", which has a zero byte; allowed: a path");
  EXPECT_EQ(refusal(run + "data: {sources: [{paths: [\"a\\0b\"], exclude: [\"\\0\"]}]}\n"),
            "run.yaml:4:27: data.sources[0].paths[0]: found \"a\\u0000b\", which has a zero byte; "
            "allowed: a path\n"
            "run.yaml:4:46: data.sources[0].exclude[0]: found \"\\u0000\", which has a zero byte; "
            "allowed: a text");
  EXPECT_EQ(refusal(run, {.set = {"name=a\xff"}}),
            "--set name: found \"a\xef\xbf\xbd\", which is not valid UTF-8; allowed: a text");
}

TEST(ReadRun, HoldsTheBoundsAsFloatsToo) {
  const auto refused = [](std::string_view lines) { return refusal(with_training(lines)); };
  EXPECT_EQ(refused("  dropout: 0.99999999\n"),
            "run.yaml:4:12: training.dropout: found 0.99999999, which as a float is 1; allowed: a "
            "number, at least 0 and below 1");
  EXPECT_EQ(refused("  epsilon: 5e-324\n"),
            "run.yaml:4:12: training.epsilon: found 5e-324, which as a float is 0; allowed: a "
            "number, above 0");
  for (const std::string_view key : {"learning_rate", "weight_decay", "z_loss", "max_grad_norm"}) {
    EXPECT_EQ(refused(concat("  ", key, ": 1e39\n")),
              concat("run.yaml:4:", key.size() + 5, ": training.", key,
                     ": found 1e39, which no float holds (they end at 3.40282e+38); allowed: a "
                     "number, ",
                     key == "learning_rate" ? "above 0" : "at least 0"));
    EXPECT_EQ(refused(concat("  ", key, ": 3e38\n")), "");
  }
  EXPECT_NE(refused("  beta1: 0.999999999999\n"), "");
  EXPECT_NE(refused("  beta2: 0.999999999999\n"), "");
  EXPECT_EQ(refused("  dropout: 0.9999999\n  beta2: 0.9999999\n  epsilon: 1e-45\n"), "");
}

TEST(ReadRun, HoldsTheBoundsOfEveryKindOfNumber) {
  const auto refused = [](std::string_view lines) { return refusal(with_training(lines)); };
  EXPECT_EQ(refused("  learning_rate: 0\n"),
            "run.yaml:4:18: training.learning_rate: found 0; allowed: a number, above 0");
  EXPECT_EQ(refused("  beta2: 1\n"),
            "run.yaml:4:10: training.beta2: found 1; allowed: a number, at least 0 and below 1");
  EXPECT_EQ(
      refused("  min_lr_ratio: 1.01\n"),
      "run.yaml:4:17: training.min_lr_ratio: found 1.01; allowed: a number, at least 0 and at "
      "most 1");
  EXPECT_EQ(refused("  seed: -1\n"),
            "run.yaml:4:9: training.seed: found -1, which is negative; allowed: a whole number, at "
            "least 0");
  EXPECT_EQ(refused("  z_loss: .nan\n"),
            "run.yaml:4:11: training.z_loss: found .nan; allowed: a number, at least 0");
  EXPECT_EQ(refused("  muon_newton_schulz_steps: 21\n"),
            "run.yaml:4:29: training.muon_newton_schulz_steps: found 21; allowed: a whole number, "
            "at least 1 and at most 20");
  EXPECT_EQ(refused("  seed: 18446744073709551615\n"), "");
  EXPECT_EQ(refused("  min_lr_ratio: 1\n  beta2: 0\n"), "");
}

TEST(ReadRun, ReportsEveryErrorAtOnce) {
  EXPECT_EQ(
      refusal("model: {model_type: llama, hidden_size: 24, num_attention_heads: 5}\n"
              "training:\n  stesp: 3\n  precision: int8\n"),
      "run.yaml:3:3: training.stesp: unknown key; did you mean \"steps\"?\n"
      "run.yaml:4:14: training.precision: found int8; allowed: one of fp32, bf16, fp16, "
      "float32, bfloat16 and float16\n"
      "run.yaml:1:66: model.num_attention_heads: found 5; allowed: a divisor of "
      "model.hidden_size, 24\n"
      "run.yaml:3:3: training: neither steps nor epochs is given; allowed: exactly one of the "
      "two");
}

TEST(ReadRun, StopsListingErrorsAfterFifty) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += concat("  zzz", i, "qqqqqqqqqqqq: 1\n");
  }
  const std::string message = refusal(with_training(lines));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 50);
  EXPECT_TRUE(message.ends_with("\nand 10 more")) << message;
}

TEST(ReadRun, AcceptsTheSpellingsOfHuggingFacesTrainer) {
  const LoadedRun run = loaded(std::string(kModel) + R"(
training:
  per_device_train_batch_size: 4
  max_steps: -1
  num_train_epochs: 3
  bf16: true
  fp16: false
  optim: adamw_torch
  adam_beta1: 0.8
  adam_beta2: 0.9
  adam_epsilon: 1e-6
  max_grad_norm: 0.5
  lr_scheduler_type: linear
  warmup_steps: 0
  warmup_ratio: 0.1
  eval_steps: 50
  save_steps: 100
  save_total_limit: 3
)");
  const TrainingSpec& training = run.run.training;
  EXPECT_EQ(training.micro_batch_size, 4);
  EXPECT_EQ(training.steps, std::nullopt);
  EXPECT_EQ(training.epochs, 3.0);
  EXPECT_EQ(training.precision, Precision::kBf16);
  EXPECT_EQ(training.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(training.optimizer.beta1, 0.8);
  EXPECT_EQ(training.optimizer.beta2, 0.9);
  EXPECT_EQ(training.optimizer.epsilon, 1e-6);
  EXPECT_EQ(training.max_grad_norm, 0.5);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::kLinear);
  EXPECT_EQ(training.schedule.warmup_steps, std::nullopt);
  EXPECT_EQ(training.schedule.warmup_ratio, 0.1);
  EXPECT_EQ(training.eval_every, 50);
  EXPECT_EQ(run.run.checkpoint.every, 100);
  EXPECT_EQ(run.run.checkpoint.keep, 3);
}

TEST(ReadRun, AScheduleInHuggingFacesSpellingEndsAtZero) {
  const auto floor = [](std::string_view lines) {
    return loaded(with_training(lines)).run.training.schedule.min_lr_ratio;
  };
  EXPECT_EQ(floor("  lr_scheduler_type: cosine\n"), 0.0);
  EXPECT_EQ(floor("  lr_scheduler_type: cosine\n  min_lr_ratio: 0.2\n"), 0.2);
  EXPECT_EQ(floor("  lr_scheduler_type: cosine_with_min_lr\n"), 0.1);
  EXPECT_EQ(floor("  lr_scheduler: cosine\n"), 0.1);
  EXPECT_EQ(loaded(with_training("  lr_scheduler_type: cosine\n")).notes,
            std::vector<std::string>{"/conf/run.yaml:4:22: training.lr_scheduler_type: cosine ends "
                                     "at zero, as in Hugging Face's Trainer: min_lr_ratio is 0"});
}

TEST(ReadRun, AcceptsEverySpellingOfAnOptimizer) {
  const auto kind = [](std::string_view name) {
    return loaded(with_training(concat("  optimizer: ", name, "\n"))).run.training.optimizer.kind;
  };
  for (const std::string_view name : {"adamw", "adamw_torch", "adamw_torch_fused"}) {
    EXPECT_EQ(kind(name), OptimizerKind::kAdamW);
  }
  EXPECT_EQ(kind("sgd"), OptimizerKind::kSgd);
  EXPECT_EQ(kind("lion"), OptimizerKind::kLion);
  EXPECT_EQ(kind("muon"), OptimizerKind::kMuon);
}

TEST(ReadRun, TwoSpellingsMayAgreeButNotContradict) {
  const auto refused = [](std::string_view lines) { return refusal(with_training(lines)); };
  EXPECT_EQ(refused("  precision: bf16\n  bf16: true\n  fp16: false\n"), "");
  EXPECT_EQ(refused("  precision: bf16\n  fp16: true\n"),
            "run.yaml:5:9: training.fp16: true: contradicts training.precision: bf16 "
            "(run.yaml:4:14)");
  EXPECT_EQ(refused("  bf16: true\n  fp16: true\n"),
            "run.yaml:5:9: training.fp16: true: contradicts training.bf16: true (run.yaml:4:9)");
  EXPECT_EQ(refused("  bf16: false\n  precision: bf16\n"),
            "run.yaml:4:9: training.bf16: false: contradicts training.precision: bf16 "
            "(run.yaml:5:14)");
  EXPECT_EQ(refused("  optimizer: adamw\n  optim: adamw_torch_fused\n"), "");
  EXPECT_EQ(refused("  micro_batch_size: 8\n  per_device_train_batch_size: 4\n"),
            "run.yaml:5:32: training.per_device_train_batch_size: 4: contradicts "
            "training.micro_batch_size: 8 (run.yaml:4:21)");
}

TEST(ReadRun, EveryExampleIsRight) {
  const std::filesystem::path data = CADRE_TEST_DATA;  // tests/data
  const std::filesystem::path examples = data.parent_path().parent_path() / "examples";
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(examples)) {
    if (file.path().extension() == ".yaml") {
      const Result<LoadedRun> run = read_run(file.path().string());
      EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
      ++count;
    }
  }
  EXPECT_GE(count, 3);
}

TEST(ReadRun, RefusesAFileThatIsNotThere) {
  const Result<LoadedRun> missing = read_run("/nowhere/run.yaml");
  EXPECT_EQ(missing.error().message, "the configuration \"/nowhere/run.yaml\" does not exist");
  EXPECT_EQ(missing.error().kind, ErrorKind::kInput);
  EXPECT_EQ(read_run("/").error().message, "the configuration \"/\" is a directory; give the file");
}

TEST(ReadRun, KnowsThePlaceOfAKeyOrOfTheSectionAroundIt) {
  const LoadedRun run = loaded(
      "model:\n  model_type: llama\n  rope_scaling: {factor: 2}\n"
      "training: {max_steps: 3}\ndata:\n  sources: [{paths: a}]\n");
  EXPECT_EQ(run.place_of("model.model_type"), "/conf/run.yaml:2:15");
  EXPECT_EQ(run.place_of("model.rope_scaling.factor"), "/conf/run.yaml:3:26");
  EXPECT_EQ(run.place_of("model.rope_scaling.rope_type"), "/conf/run.yaml:3:17");
  EXPECT_EQ(run.place_of("model.hidden_size"), "/conf/run.yaml:2:3");
  EXPECT_EQ(run.place_of("training.steps"), "/conf/run.yaml:4:23");
  EXPECT_EQ(run.place_of("data.sources[0].weight"), "/conf/run.yaml:6:13");
  EXPECT_EQ(run.place_of("sample.prompt"), "/conf/run.yaml");
}

}  // namespace
}  // namespace cadre
