#include "train/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/step_error.h"
#include "train/rehearsal.h"

namespace cadre::train {
namespace {

constexpr int64_t kPositions = 24;

std::unique_ptr<Engine> make_engine(const GenerationLength& text) {
  const EngineSpec spec{.model = {.family = "llama",
                                  .vocab_size = 53,
                                  .hidden_size = 24,
                                  .intermediate_size = 40,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 3,
                                  .num_key_value_heads = 1,
                                  .head_dim = 8,
                                  .max_position_embeddings = 64,
                                  .initializer_range = 0.5},
                        .training = {.micro_batch_size = 1},
                        .sequence_length = kPositions,
                        .purpose = Purpose::kInference};
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal =
      rehearse(spec, {.target = target, .text = text, .whole_logits = true});
  auto engine = std::make_unique<Engine>(spec, Device{.kind = DeviceKind::kCpu, .target = target},
                                         1, rehearsal.ledger);
  engine->store().initialize(engine->context(), 3);
  return engine;
}

// The most likely next token of `ids`, from the logits of all positions without any cache.
int32_t next_without_cache(Engine& engine, const std::vector<int32_t>& ids) {
  EvaluationSums sums;
  engine.evaluate(sums, [&](const HostBatch& batch) {
    for (size_t t = 0; t < batch.tokens.size(); ++t) {
      batch.tokens[t] = t < ids.size() ? ids[t] : 0;
      batch.targets[t] = 0;
      batch.positions[t] = static_cast<int32_t>(t);
      batch.starts[t] = 0;
    }
  });
  model::Batch batch = engine.filled_batch();
  batch.training = false;
  const OwnedTensor logits = engine.stage().logits(engine.context(), engine.activations(), batch);
  const auto row = logits.view().row<float>(static_cast<int64_t>(ids.size()) - 1);
  return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
}

// Every length of prompt has its own need of scratch: none may exceed what was planned.
TEST(Generation, GivesWithACacheWhatItGivesWithout) {
  for (int64_t prompt = 1; prompt < 12; ++prompt) {
    const std::unique_ptr<Engine> engine = make_engine({.prompt = prompt, .tokens = 8});
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < prompt; ++i) {
      ids.push_back(static_cast<int32_t>(i * 7 % 53));
    }
    std::vector<int32_t> generated;
    generate(*engine, ids, {.tokens = 8}, [&](int32_t id) { generated.push_back(id); });
    ASSERT_EQ(generated.size(), 8u);
    for (const int32_t id : generated) {
      ASSERT_EQ(next_without_cache(*engine, ids), id) << "prompt of " << prompt;
      ids.push_back(id);
    }
  }
}

TEST(Generation, ChoosesAmongTheMostLikely) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f, -1.0f};
  EXPECT_EQ(choose_token(logits, {.temperature = 0.0}, 0), 1);
  std::vector<int> counts(4, 0);
  for (int64_t index = 0; index < 4000; ++index) {
    ++counts[static_cast<size_t>(
        choose_token(logits, {.temperature = 1.0, .top_k = 2, .seed = 4}, index))];
  }
  // e / (e + 1) of the draws, within five standard errors.
  EXPECT_NEAR(counts[1] / 4000.0, 0.7311, 0.035);
  EXPECT_EQ(counts[0] + counts[3], 0);
  // 1 alone has 0.66 of the probability, 1 and 2 have 0.90.
  for (int64_t index = 0; index < 200; ++index) {
    EXPECT_EQ(choose_token(logits, {.temperature = 1.0, .top_p = 0.6, .seed = 4}, index), 1);
    EXPECT_NE(choose_token(logits, {.temperature = 1.0, .top_p = 0.8, .seed = 4}, index), 3);
  }
}

// The largest of numbers of which one is NaN depends on where the NaN is.
TEST(Generation, RefusesLogitsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits = {1.0f, bad, 2.0f};
    EXPECT_THROW(choose_token(logits, {.temperature = 0.0}, 0), StepError);
    EXPECT_THROW(choose_token(logits, {.temperature = 1.0}, 0), StepError);
  }
}

TEST(Generation, StopsAtAnEndOfText) {
  const std::unique_ptr<Engine> engine = make_engine({.prompt = 1, .tokens = 8});
  std::vector<int32_t> all, cut;
  generate(*engine, std::vector<int32_t>{5}, {.tokens = 8}, [&](int32_t id) { all.push_back(id); });
  const int64_t stop = all.back();
  generate(*engine, std::vector<int32_t>{5}, {.tokens = 8, .stop = {stop}},
           [&](int32_t id) { cut.push_back(id); });
  EXPECT_LT(cut.size(), all.size());
  EXPECT_TRUE(std::equal(cut.begin(), cut.end(), all.begin()));
}

}  // namespace
}  // namespace cadre::train
