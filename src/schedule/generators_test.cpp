#include "schedule/generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "schedule/every_pipeline_test.h"
#include "schedule/play.h"

namespace cadre::schedule {
namespace {

std::string refusal(Kind kind, const PipelineShape& shape) {
  const Result<Pipeline> made = make_pipeline(kind, shape);
  return made ? "" : made.error().message;
}

double makespan(const Pipeline& pipeline, const UniformCosts& costs) {
  return play(pipeline, uniform(pipeline.stages(), costs))->makespan;
}

TEST(Generators, KnowTheirNames) {
  for (const Kind kind : kKinds) {
    EXPECT_EQ(kind_of(name(kind)), kind);
  }
  EXPECT_EQ(kind_of("1f1b"), Kind::kOneFOneB);
  EXPECT_EQ(kind_of("zb-h3"), std::nullopt);
}

TEST(Generators, SayPlainlyWhatTheyCannotDo) {
  EXPECT_EQ(refusal(Kind::kInterleaved, {.ranks = 4, .stages_per_rank = 2, .micro_batches = 6}),
            "pipeline schedule interleaved_1f1b: 6 micro-batches are not divisible by 4 ranks; use "
            "4 or 8, or 1f1b with any number");
  EXPECT_EQ(refusal(Kind::kInterleaved, {.ranks = 4, .stages_per_rank = 2, .micro_batches = 3}),
            "pipeline schedule interleaved_1f1b: 3 micro-batches are not divisible by 4 ranks; use "
            "4, or 1f1b with any number");
  EXPECT_EQ(refusal(Kind::kZeroBubbleV, {.ranks = 4, .micro_batches = 6}),
            "pipeline schedule zb_v has 2 stages per rank, found 1; set 2");
  EXPECT_EQ(refusal(Kind::kOneFOneB, {.ranks = 4, .stages_per_rank = 2, .micro_batches = 6}),
            "pipeline schedule 1f1b has 1 stage per rank, found 2; set 1, or use interleaved_1f1b");
  EXPECT_NE(refusal(Kind::kGpipe, {.ranks = 4, .micro_batches = 0}), "");
  EXPECT_NE(refusal(Kind::kGpipe, {.ranks = 0, .micro_batches = 1}), "");
  EXPECT_NE(refusal(Kind::kGpipe, {.ranks = int64_t{1} << 40, .micro_batches = int64_t{1} << 40}),
            "");
}

// The case that a published implementation failed on: two stages on each of 4 ranks, 8
// micro-batches.
TEST(Generators, FieldI2PlaceTheStagesOfZbV) {
  const Pipeline pipeline =
      *make_pipeline(Kind::kZeroBubbleV, {.ranks = 4, .stages_per_rank = 2, .micro_batches = 8});
  EXPECT_EQ(pipeline.rank_of_stage, (std::vector<int64_t>{0, 1, 2, 3, 3, 2, 1, 0}));
  EXPECT_EQ(makespan(pipeline, {}), 51.0);
}

TEST(Generators, FieldI1FewerMicroBatchesThanRanksEnd) {
  for (const NamedPipeline& named : every_pipeline()) {
    if (named.shape.micro_batches < named.shape.ranks) {
      EXPECT_TRUE(play(named.pipeline, uniform(named.pipeline.stages(), {.message = 0.5})).ok())
          << named.name;
    }
  }
}

TEST(Generators, OneRankOf1F1BIsTheSingleStage) {
  EXPECT_EQ(make_pipeline(Kind::kOneFOneB, {.micro_batches = 5})->list(0), single_stage(5));
}

TEST(Generators, OneRankNeverWaits) {
  for (const NamedPipeline& named : every_pipeline()) {
    if (named.shape.ranks == 1) {
      EXPECT_EQ(play(named.pipeline, uniform(named.pipeline.stages(), {}))->bubble_fraction(), 0.0)
          << named.name;
    }
  }
}

// The papers' lengths of a step, with f, b, w of one stage.
TEST(Generators, StepsAreAsLongAsThePapersSay) {
  for (const UniformCosts& costs :
       {UniformCosts{}, UniformCosts{.forward = 10, .backward_input = 12, .backward_weight = 8}}) {
    const double f = costs.forward;
    const double b = costs.backward_input;
    const double w = costs.backward_weight;
    for (const NamedPipeline& named : every_pipeline()) {
      const auto R = static_cast<double>(named.shape.ranks);
      const auto v = static_cast<double>(named.shape.stages_per_rank);
      const auto m = static_cast<double>(named.shape.micro_batches);
      const double found = makespan(named.pipeline, costs);
      switch (named.kind) {
        case Kind::kGpipe:
        case Kind::kOneFOneB:
          EXPECT_EQ(found, (m + R - 1) * (f + b + w)) << named.name;
          break;
        case Kind::kInterleaved:
          EXPECT_EQ(found, (m * v + R - 1) * (f + b + w)) << named.name;
          break;
        case Kind::kZeroBubbleH1:
          EXPECT_EQ(found, m * (f + b + w) + (R - 1) * (f + b - w) + std::max(0.0, R - m) * w)
              << named.name;
          break;
        case Kind::kZeroBubbleV:
          if (f == b && b == w && m >= R) {
            const double ideal = 2 * m * (f + b + w) + (R - 1) * f;
            EXPECT_LE(found, m == R || m >= 2 * R - 1 ? ideal : 8.0 / 7.0 * ideal) << named.name;
            EXPECT_GE(found, ideal) << named.name;
          }
          break;
      }
    }
  }
}

TEST(Generators, BubbleFractionsAreThoseOfThePapers) {
  const PipelineShape shape{.ranks = 8, .micro_batches = 24};
  const PipelineShape thin{.ranks = 8, .stages_per_rank = 2, .micro_batches = 24};
  const auto bubble = [](Kind kind, const PipelineShape& of) {
    return play(*make_pipeline(kind, of), uniform(of.stages(), {}))->bubble_fraction();
  };
  EXPECT_DOUBLE_EQ(bubble(Kind::kGpipe, shape), 7.0 / 31.0);
  EXPECT_DOUBLE_EQ(bubble(Kind::kOneFOneB, shape), 7.0 / 31.0);
  EXPECT_DOUBLE_EQ(bubble(Kind::kInterleaved, thin), 7.0 / 55.0);
  EXPECT_DOUBLE_EQ(bubble(Kind::kZeroBubbleH1, shape), 7.0 / (24.0 * 3.0 + 7.0));
  EXPECT_DOUBLE_EQ(bubble(Kind::kZeroBubbleV, thin), 7.0 / (48.0 * 3.0 + 7.0));
}

// "Zero bubble": once it has begun, no rank waits until its own work is done.
TEST(Generators, ZbVNeverWaitsOnceARankHasBegun) {
  for (const NamedPipeline& named : every_pipeline()) {
    if (named.kind != Kind::kZeroBubbleV || named.shape.micro_batches < 2 * named.shape.ranks - 1) {
      continue;
    }
    const Playing playing = *play(named.pipeline, uniform(named.pipeline.stages(), {}));
    for (const RankTimes& rank : playing.ranks) {
      EXPECT_EQ(rank.end - rank.begin, rank.busy) << named.name;
    }
  }
}

// Gradients are sums of floats: in one order, whatever the schedule, they have the same bits.
TEST(Generators, AddGradientsOfWeightsInTheOrderOfOneProcess) {
  for (const NamedPipeline& named : every_pipeline()) {
    for (const auto& list : named.pipeline.lists) {
      std::map<int64_t, int64_t> next;  // by stage
      for (const Instruction& instruction : list) {
        if (instruction.action == Action::kBackward ||
            instruction.action == Action::kBackwardWeight) {
          EXPECT_EQ(instruction.micro_batch, next[instruction.stage]++) << named.name;
        }
      }
    }
  }
}

TEST(Generators, LargePipelinesArePlayedToTheEnd) {
  for (const Kind kind : kKinds) {
    const int64_t stages_per_rank =
        kind == Kind::kZeroBubbleV || kind == Kind::kInterleaved ? 2 : 1;
    const PipelineShape shape{
        .ranks = 32, .stages_per_rank = stages_per_rank, .micro_batches = 256};
    const Pipeline pipeline = *make_pipeline(kind, shape);
    Costs costs = uniform(shape.stages(), {.message = 0.1});
    EXPECT_TRUE(play(pipeline, costs).ok()) << name(kind);
    costs.blocking_sends = true;
    EXPECT_TRUE(play(pipeline, costs).ok()) << name(kind);
  }
}

}  // namespace
}  // namespace cadre::schedule
