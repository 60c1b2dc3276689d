// Whole runs of a small model: that stopping, resuming and threads leave no trace in the result.

#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoints.h"
#include "testing/golden.h"

namespace cadre::train {
namespace {

namespace fs = std::filesystem;

// A folder with a corpus of 40 documents whose words come from a small generator.
class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = fs::path(::testing::TempDir()) / "trainer" /
             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder);
    fs::create_directories(folder / "corpus");
    uint32_t state = 7;
    for (int document = 0; document < 40; ++document) {
      std::ofstream out(folder / "corpus" / ("text-" + std::to_string(document) + ".txt"));
      for (int word = 0; word < 60; ++word) {
        state = state * 1664525u + 1013904223u;
        constexpr const char* kWords[] = {"one ", "two ", "three ", "sun ", "moon ", "stars.\n"};
        out << kWords[(state >> 24) % 6];
      }
    }
  }

  // `extra` stands in the section training.
  LoadedRun configuration(const std::string& output, const std::string& extra,
                          const std::string& more = "") const {
    const std::string text =
        "model: {model_type: llama, hidden_size: 24, intermediate_size: 40,\n"
        "        num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1,\n"
        "        head_dim: 8, max_position_embeddings: 64}\n"
        "tokenizer: {train: {vocab_size: 300}}\n"
        "data: {sources: [{paths: [corpus]}], sequence_length: 16, validation_fraction: 0.2}\n"
        "sample: {tokens: 4}\n" +
        more + "training:\n  micro_batch_size: 3\n  learning_rate: 1e-2\n" + extra;
    const Result<LoadedRun> loaded =
        read_run_text(text, (folder / "run.yaml").string(),
                      {.set = {"data.cache_directory=" + (folder / "cache").string()},
                       .output = (folder / output).string()});
    CADRE_CHECK(loaded.ok(), loaded.ok() ? "" : loaded.error().message);
    return *loaded;
  }

  std::vector<Json> metrics(const std::string& output) const {
    std::vector<Json> lines;
    std::ifstream in(folder / output / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      lines.push_back(Json::parse(line));
    }
    return lines;
  }

  std::string bytes(const fs::path& path) const {
    std::ifstream in(folder / path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  void expect_same_result(const std::string& a, const std::string& b,
                          const std::string& step) const {
    for (const char* file :
         {"model.safetensors", "optimizer-00001-of-00001.safetensors", "trainer_state.json"}) {
      const fs::path name = fs::path("checkpoints") / step / file;
      ASSERT_TRUE(fs::exists(folder / a / name)) << file;
      EXPECT_EQ(bytes(a / name), bytes(b / name)) << file;
    }
  }

  fs::path folder;
};

int run(const LoadedRun& loaded, const TrainOptions& options = {.log_json = true}) {
  const Result<RunEnd> end = train_run(loaded, options);
  if (!end.ok()) {
    std::fprintf(stderr, "%s\n", end.error().message.c_str());
    return end.error().kind == ErrorKind::kInput ? 2 : 1;
  }
  return *end == RunEnd::kStopped ? 75 : 0;
}

TEST_F(TrainerTest, LearnsAndWritesARunFolder) {
  ASSERT_EQ(run(configuration("a", "  steps: 30\n")), 0);
  const std::vector<Json> lines = metrics("a");
  ASSERT_EQ(lines.size(), 30u);
  EXPECT_LT(lines.back()["loss"].get<double>(), 0.7 * lines.front()["loss"].get<double>());
  for (const char* file :
       {"run.yaml", "tokenizer.json", "log/rank-0000.log", "checkpoints/step-00000030/config.json",
        "checkpoints/step-00000030/tokenizer.json", "checkpoints/step-00000030/manifest.json"}) {
    EXPECT_TRUE(fs::exists(folder / "a" / file)) << file;
  }
}

// 24 steps are more than an epoch of this corpus.
TEST_F(TrainerTest, GivesTheSameBitsInOneGoAndInTwo) {
  for (const std::string precision : {"fp32", "bf16"}) {
    const std::string extra = "  steps: 24\n  precision: " + precision +
                              "\n  gradient_accumulation_steps: 2\n  dropout: 0.1\n";
    const std::string whole = "whole-" + precision, halves = "halves-" + precision;
    ASSERT_EQ(run(configuration(whole, extra, "threads: 1\n")), 0);
    // A stop asked for while the first half runs: after a checkpoint every 12 steps.
    ASSERT_EQ(run(configuration(halves, extra, "threads: 2\ncheckpoint: {every: 12, keep: 0}\n")),
              0);
    fs::remove_all(folder / halves / "checkpoints" / "step-00000024");
    ASSERT_EQ(run(configuration(halves, extra, "threads: 3\ncheckpoint: {every: 12, keep: 0}\n")),
              0);
    const std::vector<Json> a = metrics(whole), b = metrics(halves);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i]["loss"], b[i]["loss"]) << "step " << i + 1;
      EXPECT_EQ(a[i]["grad_norm"], b[i]["grad_norm"]) << "step " << i + 1;
    }
    expect_same_result(whole, halves, "step-00000024");
  }
}

TEST_F(TrainerTest, GivesTheSameStepsForAnyAccumulation) {
  ASSERT_EQ(run(configuration("once", "  steps: 6\n  optimizer: sgd\n  max_grad_norm: 0.5\n", "")),
            0);
  LoadedRun split = configuration("split", "  steps: 6\n  optimizer: sgd\n  max_grad_norm: 0.5\n");
  split.run.training.micro_batch_size = 1;
  split.run.training.gradient_accumulation_steps = 3;
  ASSERT_EQ(run(split), 0);
  const std::vector<Json> a = metrics("once"), b = metrics("split");
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i]["loss"].get<double>(), b[i]["loss"].get<double>(), 2e-5) << i;
    EXPECT_NEAR(a[i]["grad_norm"].get<double>(), b[i]["grad_norm"].get<double>(), 2e-5) << i;
  }
}

// An epoch is used up to its last sample: the next command goes on with the second one, and that is
// another order of the same samples.
TEST_F(TrainerTest, FieldCase_C14_AResumeExactlyAtAnEpochsEndRunsTheNextOne) {
  const auto epochs = [this](const std::string& output, const std::string& count) {
    LoadedRun loaded = configuration(
        output, "  epochs: " + count + "\n  lr_scheduler: constant\n  seed: 3\n", "threads: 1\n");
    loaded.run.training.micro_batch_size = 1;  // so that an epoch ends where a step does
    return run(loaded);
  };
  ASSERT_EQ(epochs("halves", "1"), 0);
  const size_t steps = metrics("halves").size();
  ASSERT_GT(steps, 10u);
  ASSERT_EQ(epochs("halves", "2"), 0);
  ASSERT_EQ(epochs("whole", "2"), 0);
  const std::vector<Json> a = metrics("whole"), b = metrics("halves");
  ASSERT_EQ(a.size(), 2 * steps);
  ASSERT_EQ(b.size(), 2 * steps);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i]["loss"], b[i]["loss"]) << "step " << i + 1;
  }
  expect_same_result("whole", "halves", fmt::format("step-{:08}", 2 * steps));
}

TEST_F(TrainerTest, RefusesAWarmUpThatIsLongerThanTheEpochs) {
  const LoadedRun loaded = configuration("a", "  epochs: 1\n  warmup_steps: 5000\n");
  const Result<RunEnd> end = train_run(loaded, {.log_json = true});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kInput);
  for (const char* part : {"run.yaml:", "training.warmup_steps", "5000", "warmup_ratio"}) {
    EXPECT_NE(end.error().message.find(part), std::string::npos) << end.error().message;
  }
  EXPECT_FALSE(fs::exists(folder / "a"));
  EXPECT_FALSE(fs::exists(folder / "cache"));
  EXPECT_EQ(run(configuration("a", "  epochs: 1\n  warmup_steps: 5\n")), 0);
}

// The shards are read in the middle of a step, and there it shows that one went bad meanwhile.
TEST_F(TrainerTest, EndsWithTheCauseWhereTheWorldFailsInAStep) {
  const LoadedRun loaded = configuration("a", "  steps: 100000\n", "checkpoint: {every: 0}\n");
  std::jthread spoiler([this] {
    while (bytes("a/metrics.jsonl").empty()) {
      std::this_thread::yield();
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder / "cache")) {
      if (entry.path().extension() == ".tokens") {
        std::fstream shard(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
        shard.seekp(1000);  // behind the head, before the index
        shard << std::string(2000, '\xff');
      }
    }
  });
  const Result<RunEnd> end = train_run(loaded, {.log_json = true});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kFailure);
  EXPECT_NE(end.error().message.find("went bad"), std::string::npos) << end.error().message;
}

TEST_F(TrainerTest, FindsWhatCannotTrainBeforeATokenizerIsTrained) {
  const auto message = [](const LoadedRun& loaded) {
    const Result<RunEnd> end = train_run(loaded, {.log_json = true});
    EXPECT_FALSE(end.ok());
    return end.ok() ? std::string() : end.error().message;
  };
  LoadedRun empty = configuration("a", "  steps: 1\n");
  empty.run.data.sources.clear();
  EXPECT_NE(message(empty).find("data.sources: not given"), std::string::npos);
  LoadedRun small = configuration("a", "  steps: 1\n");
  small.run.model.config["vocab_size"] = 299;
  const std::string refused = message(small);
  EXPECT_NE(refused.find("tokenizer.train.vocab_size: found 300"), std::string::npos) << refused;
  EXPECT_FALSE(fs::exists(folder / "cache"));
}

TEST_F(TrainerTest, FieldCase_C15_AFinishedRunIsLeftAlone) {
  ASSERT_EQ(run(configuration("a", "  steps: 3\n")), 0);
  const auto before = fs::last_write_time(folder / "a/checkpoints/step-00000003/manifest.json");
  ASSERT_EQ(run(configuration("a", "  steps: 3\n")), 0);
  EXPECT_EQ(fs::last_write_time(folder / "a/checkpoints/step-00000003/manifest.json"), before);
}

// The signal is raised while the run goes on, from another thread, at no chosen moment.
TEST_F(TrainerTest, FieldCase_C18_AStopSignalSavesAndTheSameCommandContinues) {
  const std::string extra = "  steps: 400\n  eval_every: 2\n";
  std::jthread stopper([this] {
    // Lines are counted, not read: the last one may be half written.
    const auto lines = [this] {
      const std::string text = bytes("a/metrics.jsonl");
      return std::ranges::count(text, '\n');
    };
    while (lines() < 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::raise(SIGTERM);
  });
  ASSERT_EQ(run(configuration("a", extra)), 75);
  stopper.join();
  const size_t stopped = metrics("a").size();
  EXPECT_GE(stopped, 5u);
  ASSERT_LT(stopped, 400u);
  EXPECT_EQ(run(configuration("a", extra, "checkpoint: {every: 0}\n")), 0);
  EXPECT_EQ(metrics("a").size(), 400u);
}

TEST_F(TrainerTest, ResumingFromAnEarlierCheckpointIsNeverUndone) {
  const std::string all = "checkpoint: {every: 4, keep: 0}\n";
  ASSERT_EQ(run(configuration("a", "  steps: 12\n", all)), 0);
  const TrainOptions from{.resume = TrainOptions::Resume::kFrom,
                          .resume_from = folder / "a" / "checkpoints" / "step-00000004",
                          .log_json = true};
  // Its own folder goes on to step 12: two branches would be mixed.
  EXPECT_EQ(run(configuration("a", "  steps: 9\n", all), from), 2);
  EXPECT_FALSE(fs::exists(folder / "a" / "checkpoints" / "step-00000009"));
  // A folder of its own; the same command again goes on where that one is.
  ASSERT_EQ(run(configuration("b", "  steps: 9\n", all), from), 0);
  EXPECT_EQ(metrics("b").front()["step"], 5);
  ASSERT_EQ(run(configuration("b", "  steps: 11\n", all), from), 0);
  const std::vector<Json> lines = metrics("b");
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines.back()["step"], 11);
}

TEST_F(TrainerTest, AStopSavesTheOptimizerThoughOtherCheckpointsLackIt) {
  const LoadedRun loaded =
      configuration("s", "  steps: 100000\n", "checkpoint: {every: 3, save_optimizer: false}\n");
  std::thread stopper([this] {
    const fs::path third = folder / "s" / "checkpoints" / "step-00000003";
    while (!fs::exists(third)) {
      std::this_thread::yield();
    }
    std::raise(SIGTERM);
  });
  EXPECT_EQ(run(loaded), 75);
  stopper.join();
  const Json last = metrics("s").back();
  EXPECT_TRUE(fs::exists(folder / "s" / "checkpoints" /
                         fmt::format("step-{:08}", last["step"].get<int64_t>()) /
                         "optimizer-00001-of-00001.safetensors"));
}

TEST_F(TrainerTest, RefusesToContinueAsAnotherRun) {
  ASSERT_EQ(run(configuration("a", "  steps: 3\n")), 0);
  EXPECT_EQ(run(configuration("a", "  steps: 3\n  seed: 9\n")), 2);
  EXPECT_EQ(run(configuration("a", "  steps: 3\n"), {.resume = TrainOptions::Resume::kNever}), 2);
  EXPECT_EQ(run(configuration("a", "  steps: 5\n")), 0);
  EXPECT_EQ(metrics("a").size(), 5u);
}

// Steps so small that they move nothing: what a run in another precision saves is what it took up.
TEST_F(TrainerTest, GoesOnInAnotherPrecisionWithAllBitsOfTheMasters) {
  const auto model_after = [&](int step) {
    return bytes(fmt::format("a/checkpoints/step-{:08}/model.safetensors", step));
  };
  const std::string keep = "checkpoint: {keep: 0}\n";
  ASSERT_EQ(run(configuration("a", "  steps: 3\n", keep)), 0);
  int steps = 3;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp32}) {
    LoadedRun next = configuration("a", fmt::format("  steps: {}\n", ++steps), keep);
    next.run.training.schedule.learning_rate = 1e-30;
    next.run.training.precision = precision;
    ASSERT_EQ(run(next), 0) << steps;
  }
  EXPECT_NE(model_after(4), model_after(3));
  EXPECT_EQ(model_after(6), model_after(3));
}

TEST_F(TrainerTest, GoesOnWhereTheModelThatItBeganWithHasMoved) {
  ASSERT_EQ(run(configuration("a", "  steps: 3\n")), 0);
  const fs::path model = folder / "m";
  fs::copy(folder / "a" / "checkpoints" / "step-00000003", model);
  const auto tuned = [&](const fs::path& from, int steps) {
    LoadedRun loaded = configuration("b", fmt::format("  steps: {}\n", steps));
    loaded.run.model.from = from.string();
    loaded.run.model.config = Json::object();
    loaded.run.tokenizer.reset();
    return loaded;
  };
  ASSERT_EQ(run(tuned(model, 2)), 0);
  fs::rename(model, folder / "moved");
  EXPECT_EQ(run(tuned(folder / "moved", 4)), 0);
  EXPECT_EQ(metrics("b").size(), 4u);
  // Shapes alone would not tell.
  Json config = testing::read_golden_file(folder / "moved" / "config.json");
  config["rope_theta"] = 777.0;
  std::ofstream(folder / "moved" / "config.json") << config.dump();
  EXPECT_EQ(run(tuned(folder / "moved", 6)), 2);
  EXPECT_EQ(metrics("b").size(), 4u);
}

TEST_F(TrainerTest, RefusesToContinueOnOtherData) {
  ASSERT_EQ(run(configuration("a", "  steps: 3\n")), 0);
  const std::string text = bytes("corpus/text-3.txt");
  // One word of as many letters: neither the number of tokens nor that of documents tells.
  std::string changed = text;
  changed.replace(changed.find("sun "), 4, "one ");
  std::ofstream(folder / "corpus" / "text-3.txt") << changed;
  const Result<RunEnd> end = train_run(configuration("a", "  steps: 5\n"), {.log_json = true});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kInput);
  for (const char* part : {"step-00000003", "data.sources[0]", "checksum", "--output"}) {
    EXPECT_NE(end.error().message.find(part), std::string::npos) << end.error().message;
  }
  std::ofstream(folder / "corpus" / "text-3.txt") << text;
  fs::rename(folder / "corpus", folder / "moved");  // the name of a source may change
  LoadedRun moved = configuration("a", "  steps: 5\n");
  moved.run.data.sources[0].paths = {(folder / "moved").string()};
  EXPECT_EQ(run(moved), 0);
  EXPECT_EQ(metrics("a").size(), 5u);
}

TEST_F(TrainerTest, StopsWithTheStepAndTheTensorWhereALossIsNotFinite) {
  LoadedRun loaded = configuration("a", "  steps: 20\n  max_grad_norm: 0\n  optimizer: sgd\n");
  loaded.run.training.schedule.learning_rate = 1e30;
  const Result<RunEnd> end = train_run(loaded, {.log_json = true});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kFailure);
  EXPECT_NE(end.error().message.find("is not finite, first in"), std::string::npos)
      << end.error().message;
  const std::string& message = end.error().message;
  const size_t samples = message.find("samples ");
  ASSERT_NE(samples, std::string::npos) << message;
  EXPECT_NE(message.find("corpus\", epoch ", samples), std::string::npos) << message;
  EXPECT_NE(message.find(" of document ", samples), std::string::npos) << message;
}

// The scale is of the mean loss, so the first step already counts; what is reported is without it.
TEST_F(TrainerTest, TrainsInFp16WithALossScale) {
  ASSERT_EQ(run(configuration("a", "  steps: 12\n  precision: fp16\n")), 0);
  ASSERT_EQ(run(configuration("exact", "  steps: 12\n  precision: fp32\n")), 0);
  const std::vector<Json> lines = metrics("a");
  const std::vector<Json> exact = metrics("exact");
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_FALSE(lines[i].contains("skipped")) << lines[i];
    EXPECT_EQ(lines[i]["loss_scale"], 65536.0);
    const double norm = exact[i]["grad_norm"];
    EXPECT_NEAR(lines[i]["grad_norm"].get<double>(), norm, 2e-2 * norm) << lines[i];
    EXPECT_NEAR(lines[i]["loss"].get<double>(), exact[i]["loss"].get<double>(), 1e-2) << lines[i];
  }
}

TEST_F(TrainerTest, HalvesAScaleThatOverflowsAndStopsAtTheFloor) {
  // The z-loss puts 2 z lse p / 32 into each logit's gradient: above 65504 whatever the scale.
  const LoadedRun loaded = configuration(
      "a", "  steps: 12\n  precision: fp16\n  initial_loss_scale: 4\n  z_loss: 1e9\n");
  const Result<RunEnd> end = train_run(loaded, {.log_json = true});
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kFailure);
  for (const char* part : {"step 3: the gradient is not finite, first in ", "loss scale of fp16",
                           "samples 6 to 8", "bf16"}) {
    EXPECT_NE(end.error().message.find(part), std::string::npos) << end.error().message;
  }
  const std::vector<Json> lines = metrics("a");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["loss_scale"], 2.0);
  EXPECT_EQ(lines[1]["loss_scale"], 1.0);
  EXPECT_TRUE(lines[1]["skipped"].get<bool>());
}

TEST_F(TrainerTest, TrainsWithEveryOptimizer) {
  for (const std::string optimizer : {"sgd", "lion", "muon"}) {
    const std::string rate = optimizer == "sgd" ? "" : "  weight_decay: 0.01\n";
    LoadedRun loaded =
        configuration(optimizer, "  steps: 15\n  optimizer: " + optimizer + "\n" + rate);
    loaded.run.training.schedule.learning_rate = optimizer == "sgd" ? 0.5 : 3e-3;
    ASSERT_EQ(run(loaded), 0) << optimizer;
    const std::vector<Json> lines = metrics(optimizer);
    EXPECT_LT(lines.back()["loss"].get<double>(), lines.front()["loss"].get<double>()) << optimizer;
  }
}

}  // namespace
}  // namespace cadre::train
