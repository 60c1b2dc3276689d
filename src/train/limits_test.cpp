#include "train/limits.h"

#include <gtest/gtest.h>

#include <functional>

namespace cadre::train {
namespace {

EngineSpec small() {
  return {.model = {.family = "llama",
                    .vocab_size = 300,
                    .hidden_size = 24,
                    .intermediate_size = 40,
                    .num_hidden_layers = 2,
                    .num_attention_heads = 3,
                    .num_key_value_heads = 1,
                    .head_dim = 8,
                    .max_position_embeddings = 64},
          .training = {.micro_batch_size = 2},
          .sequence_length = 16};
}

TEST(Limits, LetTheLargestModelsOfTheFieldThrough) {
  EngineSpec spec = small();
  spec.model = {.family = "llama",  // more than 2e12 parameters
                .vocab_size = 262144,
                .hidden_size = 32768,
                .intermediate_size = 131072,
                .num_hidden_layers = 126,
                .num_attention_heads = 256,
                .num_key_value_heads = 16,
                .head_dim = 128,
                .max_position_embeddings = 10485760};
  spec.training.micro_batch_size = 1;
  spec.sequence_length = 1048576;
  EXPECT_TRUE(check_extent(spec).ok());
}

// Each of these alone would overflow a sum of bytes or of operations, or take hours to rehearse.
TEST(Limits, RefuseEverySizeThatDoesNotFitBeforeItIsUsed) {
  constexpr int64_t kHuge = 2147483647;
  const std::function<void(EngineSpec&)> enlargements[] = {
      [](EngineSpec& spec) { spec.model.vocab_size = spec.model.hidden_size = kHuge; },
      [](EngineSpec& spec) { spec.model.hidden_size = kHuge; },
      [](EngineSpec& spec) { spec.model.intermediate_size = kHuge; },
      [](EngineSpec& spec) { spec.model.num_hidden_layers = 100001; },
      [](EngineSpec& spec) { spec.model.num_attention_heads = spec.model.head_dim = kHuge; },
      [](EngineSpec& spec) { spec.sequence_length = kHuge; },
      [](EngineSpec& spec) { spec.training.micro_batch_size = spec.sequence_length = kHuge; },
  };
  for (const auto& enlarge : enlargements) {
    EngineSpec spec = small();
    enlarge(spec);
    const Status status = check_extent(spec);
    ASSERT_FALSE(status.ok()) << spec.model.hidden_size;
    EXPECT_EQ(status.error().kind, ErrorKind::kInput);
    EXPECT_NE(status.error().message.find("allowed: at most"), std::string::npos);
  }
}

TEST(Limits, RefuseMoreMemoryThanTheMachineHas) {
  Ledger ledger;
  EXPECT_TRUE(check_memory(ledger).ok());
  ledger.of(MemoryCategory::kActivations) = int64_t{1} << 50;
  const Status status = check_memory(ledger);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("1.0 PiB"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace cadre::train
