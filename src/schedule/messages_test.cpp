#include "schedule/messages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/generators.h"

namespace cadre::schedule {
namespace {

std::vector<std::string> described(const std::vector<Instruction>& list) {
  std::vector<std::string> lines;
  for (const Instruction& instruction : list) {
    lines.push_back(describe(instruction));
  }
  return lines;
}

TEST(PipelineMessages, FollowWhatMakesThemAndAreOpenedEarly) {
  const Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 3});
  EXPECT_EQ(described(pipeline.list(0)),
            (std::vector<std::string>{
                "receive of the gradient of micro-batch 0 on stage 0 from stage 1",
                "receive of the gradient of micro-batch 1 on stage 0 from stage 1",
                "receive of the gradient of micro-batch 2 on stage 0 from stage 1",
                "forward of micro-batch 0 on stage 0",
                "send of the activation of micro-batch 0 on stage 0 to stage 1",
                "forward of micro-batch 1 on stage 0",
                "send of the activation of micro-batch 1 on stage 0 to stage 1",
                "backward of micro-batch 0 on stage 0",
                "forward of micro-batch 2 on stage 0",
                "send of the activation of micro-batch 2 on stage 0 to stage 1",
                "backward of micro-batch 1 on stage 0",
                "backward of micro-batch 2 on stage 0",
            }));
  EXPECT_EQ(described(pipeline.list(1)),
            (std::vector<std::string>{
                "receive of the activation of micro-batch 0 on stage 1 from stage 0",
                "receive of the activation of micro-batch 1 on stage 1 from stage 0",
                "receive of the activation of micro-batch 2 on stage 1 from stage 0",
                "forward of micro-batch 0 on stage 1",
                "backward of micro-batch 0 on stage 1",
                "send of the gradient of micro-batch 0 on stage 1 to stage 0",
                "forward of micro-batch 1 on stage 1",
                "backward of micro-batch 1 on stage 1",
                "send of the gradient of micro-batch 1 on stage 1 to stage 0",
                "forward of micro-batch 2 on stage 1",
                "backward of micro-batch 2 on stage 1",
                "send of the gradient of micro-batch 2 on stage 1 to stage 0",
            }));
}

int64_t count_messages(const Pipeline& pipeline) {
  int64_t count = 0;
  for (const auto& list : pipeline.lists) {
    count += std::ranges::count_if(list, [](const Instruction& i) { return !computes(i.action); });
  }
  return count;
}

TEST(PipelineMessages, AreNotNeededBetweenStagesOfOneRank) {
  // 8 stages have 7 boundaries; the one in the middle is inside the last rank. Each boundary is
  // passed in both directions, and a message has two ends.
  const PipelineShape shape{.ranks = 4, .stages_per_rank = 2, .micro_batches = 5};
  EXPECT_EQ(count_messages(*make_pipeline(Kind::kZeroBubbleV, shape)), 6 * 5 * 2 * 2);
  EXPECT_EQ(count_messages(*make_pipeline(Kind::kInterleaved,
                                          {.ranks = 4, .stages_per_rank = 2, .micro_batches = 4})),
            7 * 4 * 2 * 2);
  EXPECT_EQ(count_messages(*make_pipeline(Kind::kInterleaved,
                                          {.ranks = 1, .stages_per_rank = 3, .micro_batches = 4})),
            0);
}

// With two ranks and two stages each, rank 0 sends rank 1 activations for both of its stages and
// gradients for one, and does not make them in the order in which they are read.
TEST(PipelineMessages, AreReceivedInTheOrderOfSendingAlsoWhereTheyAreReadInAnother) {
  const Pipeline pipeline =
      *make_pipeline(Kind::kInterleaved, {.ranks = 2, .stages_per_rank = 2, .micro_batches = 4});
  std::vector<Instruction> sent;
  std::vector<Instruction> received;
  for (const Instruction& instruction : pipeline.list(0)) {
    if (sends(instruction.action)) {
      sent.push_back(other_end(instruction));
    }
  }
  for (const Instruction& instruction : pipeline.list(1)) {
    if (receives(instruction.action)) {
      received.push_back(instruction);
    }
  }
  EXPECT_EQ(sent.size(), 12u);
  EXPECT_EQ(described(sent), described(received));
}

}  // namespace
}  // namespace cadre::schedule
