#include "schedule/check.h"

#include <gtest/gtest.h>

#include "schedule/every_pipeline_test.h"
#include "schedule/generators.h"

namespace cadre::schedule {
namespace {

std::string fault(const Pipeline& pipeline) {
  const Status status = check(pipeline);
  return status ? "" : status.error().message;
}

Pipeline two_ranks() {
  return *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 3});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PipelineCheck, AcceptsEverySchedule) {
  const auto all = every_pipeline();
  EXPECT_GT(all.size(), 300u);
  for (const NamedPipeline& named : all) {
    EXPECT_EQ(fault(named.pipeline), "") << named.name;
  }
}

TEST(PipelineCheck, MissesEveryInstructionThatIsTakenOut) {
  for (const Kind kind : kKinds) {
    const Pipeline whole = *make_pipeline(
        kind,
        {.ranks = 2, .stages_per_rank = kind == Kind::kZeroBubbleV ? 2 : 1, .micro_batches = 4});
    for (size_t rank = 0; rank < 2; ++rank) {
      for (size_t i = 0; i < whole.lists[rank].size(); ++i) {
        Pipeline part = whole;
        part.lists[rank].erase(part.lists[rank].begin() + static_cast<ptrdiff_t>(i));
        EXPECT_NE(fault(part), "") << name(kind) << ": " << describe(whole.lists[rank][i]);
      }
    }
  }
}

TEST(PipelineCheck, RefusesEveryInstructionThatComesTwice) {
  for (const Kind kind : kKinds) {
    const Pipeline whole = *make_pipeline(
        kind,
        {.ranks = 2, .stages_per_rank = kind == Kind::kZeroBubbleV ? 2 : 1, .micro_batches = 4});
    for (size_t rank = 0; rank < 2; ++rank) {
      for (const Instruction& instruction : whole.lists[rank]) {
        Pipeline more = whole;
        more.lists[rank].push_back(instruction);
        EXPECT_TRUE(contains(fault(more), "comes")) << fault(more);
      }
    }
  }
}

TEST(PipelineCheck, NamesABackwardBeforeItsForward) {
  Pipeline pipeline = two_ranks();
  auto& list = pipeline.lists[1];
  std::swap(list[3], list[4]);  // three receives, forward 0, backward 0
  EXPECT_EQ(fault(pipeline),
            "pipeline schedule: rank 1: backward of micro-batch 0 on stage 1 comes before its "
            "forward");
}

TEST(PipelineCheck, NamesAWeightHalfBeforeItsInputHalf) {
  const Pipeline pipeline{.micro_batches = 1,
                          .rank_of_stage = {0},
                          .lists = {{{.action = Action::kForward},
                                     {.action = Action::kBackwardWeight},
                                     {.action = Action::kBackwardInput}}}};
  EXPECT_EQ(fault(pipeline),
            "pipeline schedule: rank 0: backward of the weights of micro-batch 0 on stage 0 comes "
            "before the backward of the input");
}

TEST(PipelineCheck, RefusesBothFormsOfTheBackwardPassForOneMicroBatch) {
  const Pipeline pipeline{.micro_batches = 1,
                          .rank_of_stage = {0},
                          .lists = {{{.action = Action::kForward},
                                     {.action = Action::kBackward},
                                     {.action = Action::kBackwardWeight}}}};
  EXPECT_TRUE(contains(fault(pipeline), "comes a second time")) << fault(pipeline);
}

TEST(PipelineCheck, RefusesAMessageToAStageThatIsNoNeighbour) {
  Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 3, .micro_batches = 3});
  for (Instruction& instruction : pipeline.lists[0]) {
    if (instruction.action == Action::kSendActivation) {
      instruction.peer = 2;
    }
  }
  EXPECT_EQ(
      fault(pipeline),
      "pipeline schedule: rank 0: send of the activation of micro-batch 0 on stage 0 to stage "
      "2 is a message that nobody needs");
}

TEST(PipelineCheck, RefusesAStageOfAnotherRankAndAMicroBatchOutOfRange) {
  Pipeline pipeline = two_ranks();
  pipeline.lists[0][0].stage = 1;
  EXPECT_TRUE(contains(fault(pipeline), "does not hold")) << fault(pipeline);
  pipeline = two_ranks();
  pipeline.lists[0][0].micro_batch = 3;
  EXPECT_TRUE(contains(fault(pipeline), "is not one of 3 micro-batches")) << fault(pipeline);
  pipeline = two_ranks();
  pipeline.rank_of_stage = {0, 2};
  EXPECT_TRUE(contains(fault(pipeline), "stage 1 is on rank 2 of 2")) << fault(pipeline);
}

TEST(PipelineCheck, NamesMessagesThatOvertakeEachOther) {
  Pipeline pipeline = two_ranks();
  auto& list = pipeline.lists[1];
  std::erase_if(list, [](const Instruction& i) { return receives(i.action); });
  for (const int64_t m : {0, 2, 1}) {
    list.insert(list.begin(),
                {.action = Action::kReceiveActivation, .micro_batch = m, .stage = 1, .peer = 0});
  }
  EXPECT_EQ(fault(pipeline),
            "pipeline schedule: message 0 from rank 0 to rank 1 is sent for the receive of the "
            "activation of micro-batch 0 on stage 1 from stage 0, and received as the receive of "
            "the activation of micro-batch 1 on stage 1 from stage 0");
}

}  // namespace
}  // namespace cadre::schedule
