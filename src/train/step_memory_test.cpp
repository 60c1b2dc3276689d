// A steady step takes no memory: what it needs was planned, and lies in arenas whose pages were
// touched before the first step.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "spec/read.h"
#include "telemetry/resident.h"
#include "testing/allocations.h"
#include "testing/temporary_folder.h"
#include "train/engine.h"
#include "train/rehearsal.h"
#include "train/trainer.h"

namespace cadre::train {
namespace {

struct StepCase {
  std::string name;
  std::string family = "llama";
  TrainingSpec training = {};
  bool separate_documents = false;
};

// 512 tokens of 96 channels and matrices of 96 x 300 at least: a forgotten one has over 64 KiB.
EngineSpec spec_of(const StepCase& of) {
  const bool gpt2 = of.family == "gpt2";
  EngineSpec spec{.model = {.family = of.family,
                            .vocab_size = 300,
                            .hidden_size = 96,
                            .intermediate_size = 200,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 3,
                            .num_key_value_heads = gpt2 ? 3 : 1,
                            .head_dim = 32,
                            .max_position_embeddings = 128,
                            .norm = gpt2 ? NormKind::kLayer : NormKind::kRms,
                            .mlp = gpt2 ? MlpKind::kGeluTanh : MlpKind::kSwiGlu,
                            .positions = gpt2 ? PositionKind::kLearned : PositionKind::kRotary,
                            .qkv_bias = gpt2,
                            .attention_output_bias = gpt2,
                            .mlp_bias = gpt2,
                            .tie_word_embeddings = gpt2},
                  .training = of.training,
                  .sequence_length = 128,
                  .separate_documents = of.separate_documents};
  spec.training.micro_batch_size = 4;
  spec.training.gradient_accumulation_steps = 2;
  return spec;
}

std::vector<StepCase> cases() {
  std::vector<StepCase> all = {
      {.name = "fp32"},
      {.name = "bf16", .training = {.precision = Precision::kBf16}},
      {.name = "fp16", .training = {.precision = Precision::kFp16}},
      {.name = "full", .training = {.recompute = Recompute::kFull}},
      {.name = "selective",
       .training = {.precision = Precision::kBf16, .recompute = Recompute::kSelective}},
      {.name = "dropout", .training = {.dropout = 0.1}},
      {.name = "documents", .separate_documents = true},
      {.name = "gpt2", .family = "gpt2"}};
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kMuon}) {
    StepCase of{.name = "optimizer" + std::to_string(static_cast<int>(kind))};
    of.training.optimizer.kind = kind;
    all.push_back(of);
  }
  return all;
}

class StepMemoryTest : public ::testing::TestWithParam<StepCase> {};

void fill(int64_t micro_batch, const HostBatch& batch) {
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    batch.tokens[i] = static_cast<int32_t>((7 * i + static_cast<size_t>(micro_batch)) % 300);
    batch.targets[i] = static_cast<int32_t>((7 * i + 7) % 300);
    batch.positions[i] = static_cast<int32_t>(i % 128);
    batch.starts[i] = static_cast<int32_t>(i % 128 / 50 * 50);
  }
}

TEST_P(StepMemoryTest, ASteadyStepAsksForNoLargeBlock) {
  if (!testing::allocations_are_counted()) {
    GTEST_SKIP() << testing::kNotCounted;
  }
  const EngineSpec spec = spec_of(GetParam());
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal = rehearse(spec, {.target = target, .threads = 2});
  Engine engine(spec, {.kind = DeviceKind::kCpu, .target = target}, 2, rehearsal.ledger);
  engine.store().initialize(engine.context(), 1);
  std::vector<int64_t> faults;
  for (int64_t step = 0; step < 9; ++step) {
    testing::count_allocations_anew();
    const int64_t faults_before = page_faults();
    engine.step({.step = step, .learning_rate = 1e-3}, fill);
    EvaluationSums sums;
    engine.evaluate(sums, [](const HostBatch& batch) { fill(0, batch); });
    if (step >= 1) {
      EXPECT_EQ(testing::allocations().large_blocks, 0) << "step " << step;
      EXPECT_EQ(testing::allocations().mappings, 0) << "step " << step;
      faults.push_back(page_faults() - faults_before);
    }
  }
  // A page that a step takes anew it takes in every step. What else happens to a process, a page
  // moved by the system or a thread's stack that grows, does not happen in most of them.
  std::ranges::sort(faults);
  EXPECT_EQ(faults[faults.size() / 2], 0) << "pages touched for the first time";
  EXPECT_EQ(engine.peaks(), rehearsal.ledger);
  // What is booked is for rehearsals: a long evaluation must not pile it up.
  const size_t booked = engine.context().trace.current().ops.size();
  for (int i = 0; i < 5; ++i) {
    EvaluationSums sums;
    engine.evaluate(sums, [](const HostBatch& batch) { fill(0, batch); });
  }
  EXPECT_EQ(engine.context().trace.current().ops.size(), booked);
}

INSTANTIATE_TEST_SUITE_P(Cases, StepMemoryTest, ::testing::ValuesIn(cases()),
                         [](const auto& named) { return named.param.name; });

// Of the whole trainer, with its data, metrics, evaluations and checkpoints: a run of twelve steps
// asks for no more large blocks than one of four steps.
class RunMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder / "corpus");
    uint32_t state = 5;
    for (int document = 0; document < 40; ++document) {
      std::ofstream text(folder / "corpus" / (std::to_string(document) + ".txt"));
      for (int word = 0; word < 1500; ++word) {
        state = state * 1664525u + 1013904223u;
        constexpr const char* kWords[] = {"one ", "two ", "three ", "sun ", "moon ", "stars.\n"};
        text << kWords[(state >> 24) % 6];
      }
    }
  }

  testing::Allocations count(int steps, const std::string& output) {
    const Result<LoadedRun> loaded = read_run_text(
        "model: {model_type: llama, hidden_size: 96, intermediate_size: 200,\n"
        "        num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1,\n"
        "        max_position_embeddings: 128}\n"
        "tokenizer: {train: {vocab_size: 300}}\n"
        "data: {sources: [{paths: [corpus]}], sequence_length: 128, packing: document,\n"
        "       validation_fraction: 0.1}\n"
        "checkpoint: {every: 0}\n"
        "threads: 2\n"
        "training: {micro_batch_size: 4, gradient_accumulation_steps: 2, precision: bf16,\n"
        "           eval_every: 4, eval_batches_max: 2, steps: " +
            std::to_string(steps) + "}\n",
        (folder / "run.yaml").string(),
        {.set = {"data.cache_directory=" + (folder / "cache").string()},
         .output = (folder / output).string()});
    CADRE_CHECK(loaded.ok(), loaded.ok() ? "" : loaded.error().message);
    testing::count_allocations_anew();
    const Result<RunEnd> end = train_run(*loaded, {.log_json = true});
    CADRE_CHECK(end.ok(), end.ok() ? "" : end.error().message);
    return testing::allocations();
  }

  testing::TemporaryFolder folder;
};

TEST_F(RunMemoryTest, MoreStepsAskForNoMoreLargeBlocks) {
  if (!testing::allocations_are_counted()) {
    GTEST_SKIP() << testing::kNotCounted;
  }
  count(4, "prepares the data");
  const testing::Allocations few = count(4, "few");
  const testing::Allocations many = count(12, "many");
  EXPECT_EQ(many.large_blocks, few.large_blocks);
  EXPECT_EQ(many.mappings, few.mappings);
}

}  // namespace
}  // namespace cadre::train
