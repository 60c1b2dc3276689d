#include "schedule/slots.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/every_pipeline_test.h"
#include "schedule/generators.h"

namespace cadre::schedule {
namespace {

TEST(PipelineSlots, CountsByHand) {
  const std::vector<Instruction> list = {
      {.action = Action::kReceiveActivation, .micro_batch = 0, .stage = 1, .peer = 0},
      {.action = Action::kForward, .micro_batch = 0, .stage = 1},
      {.action = Action::kReceiveActivation, .micro_batch = 1, .stage = 1, .peer = 0},
      {.action = Action::kReceiveActivation, .micro_batch = 2, .stage = 1, .peer = 0},
      {.action = Action::kForward, .micro_batch = 1, .stage = 1},
      {.action = Action::kBackwardInput, .micro_batch = 0, .stage = 1},
      {.action = Action::kForward, .micro_batch = 2, .stage = 1},
      {.action = Action::kBackwardInput, .micro_batch = 1, .stage = 1},
      {.action = Action::kBackwardWeight, .micro_batch = 0, .stage = 1},
      {.action = Action::kBackwardWeight, .micro_batch = 1, .stage = 1},
      {.action = Action::kBackward, .micro_batch = 2, .stage = 1},
  };
  EXPECT_EQ(in_flight(list),
            (InFlight{.slots = 3, .before_input = 2, .before_weight = 2, .receives = 2}));
  EXPECT_EQ(in_flight(list, 1), in_flight(list));
  EXPECT_EQ(in_flight(list, 0), InFlight{});
}

TEST(PipelineSlots, OneIsEnoughForASingleStage) {
  EXPECT_EQ(in_flight(single_stage(7)).slots, 1);
}

// The papers' counts, for every rank.
TEST(PipelineSlots, AreThoseOfThePapers) {
  for (const NamedPipeline& named : every_pipeline()) {
    const int64_t R = named.shape.ranks;
    const int64_t v = named.shape.stages_per_rank;
    const int64_t m = named.shape.micro_batches;
    for (int64_t rank = 0; rank < R; ++rank) {
      const int64_t slots = in_flight(named.pipeline.list(rank)).slots;
      switch (named.kind) {
        case Kind::kGpipe:
          EXPECT_EQ(slots, m) << named.name;
          break;
        case Kind::kOneFOneB:
          EXPECT_EQ(slots, std::min(m, R - rank)) << named.name << ", rank " << rank;
          break;
        case Kind::kInterleaved:
          EXPECT_EQ(slots, std::min(m * v, (v + 1) * R - 2 * rank - 1))
              << named.name << ", rank " << rank;
          break;
        case Kind::kZeroBubbleH1:
          EXPECT_EQ(slots, std::min(m, R)) << named.name << ", rank " << rank;
          break;
        case Kind::kZeroBubbleV:
          EXPECT_LE(slots, std::min(2 * m, 2 * R)) << named.name << ", rank " << rank;
          if (m >= 2 * R - 1) {
            EXPECT_EQ(slots, 2 * R) << named.name << ", rank " << rank;
          }
          break;
      }
    }
  }
}

TEST(PipelineSlots, OfTheStagesCoverThoseOfTheRank) {
  for (const NamedPipeline& named : every_pipeline()) {
    for (int64_t rank = 0; rank < named.shape.ranks; ++rank) {
      int64_t sum = 0;
      for (int64_t stage = 0; stage < named.pipeline.stages(); ++stage) {
        sum += in_flight(named.pipeline.list(rank), stage).slots;
      }
      EXPECT_GE(sum, in_flight(named.pipeline.list(rank)).slots) << named.name;
    }
  }
}

TEST(PipelineSlots, FewReceivesAreOpenAtOnce) {
  for (const NamedPipeline& named : every_pipeline()) {
    for (int64_t rank = 0; rank < named.shape.ranks; ++rank) {
      const int64_t most = named.kind == Kind::kZeroBubbleV ? 4 : 3;
      EXPECT_LE(in_flight(named.pipeline.list(rank)).receives, most) << named.name;
    }
  }
}

}  // namespace
}  // namespace cadre::schedule
