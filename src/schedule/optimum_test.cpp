// Zero-bubble schedules against all schedules there are, for pipelines small enough to try them.

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "schedule/generators.h"
#include "schedule/play.h"

namespace cadre::schedule {
namespace {

// How many forwards, input halves and weight halves each stage has done. Micro-batches of a stage
// are alike, so that their order does not matter.
using Counts = std::array<int8_t, 3>;
using State = std::vector<Counts>;

// The shortest step of any order of work at f = b = w = 1 in which no rank has more than `slots`
// slots at once: by trying, tick after tick, every choice of every rank (to wait is one).
class Search {
 public:
  Search(const Pipeline& pipeline, int64_t slots) : pipeline_(pipeline), slots_(slots) {}

  int64_t shortest() {
    const auto stages = static_cast<size_t>(pipeline_.stages());
    const auto all = static_cast<int8_t>(pipeline_.micro_batches);
    const State end(stages, Counts{all, all, all});
    std::set<State> reached = {State(stages, Counts{0, 0, 0})};
    for (int64_t ticks = 0;; ++ticks) {
      if (reached.contains(end)) {
        return ticks;
      }
      std::set<State> next;
      for (const State& state : reached) {
        choose(state, state, 0, next);
      }
      reached = std::move(next);
    }
  }

 private:
  // Extends `after`, in which the ranks below `rank` have made their choice, by all choices of the
  // rest. What can run is decided by `before`: what is done in this tick is there in the next.
  void choose(const State& before, const State& after, int64_t rank, std::set<State>& next) const {
    if (rank == pipeline_.ranks()) {
      next.insert(after);
      return;
    }
    bool worked = false;
    for (size_t stage = 0; stage < before.size(); ++stage) {
      if (pipeline_.rank_of(static_cast<int64_t>(stage)) != rank) {
        continue;
      }
      for (size_t part = 0; part < 3; ++part) {
        if (can_run(before, stage, part, rank)) {
          State chosen = after;
          ++chosen[stage][part];
          choose(before, chosen, rank + 1, next);
          worked = worked || part == 2;
        }
      }
    }
    // A rank that could do a weight half has no reason to wait: it only frees memory.
    if (!worked) {
      choose(before, after, rank + 1, next);
    }
  }

  bool can_run(const State& state, size_t stage, size_t part, int64_t rank) const {
    const Counts& done = state[stage];
    switch (part) {
      case 0:
        return done[0] < (stage == 0 ? pipeline_.micro_batches : state[stage - 1][0]) &&
               slots_of(state, rank) < slots_;
      case 1:
        return done[1] < done[0] && (stage + 1 == state.size() || done[1] < state[stage + 1][1]);
      default:
        return done[2] < done[1];
    }
  }

  int64_t slots_of(const State& state, int64_t rank) const {
    int64_t slots = 0;
    for (size_t stage = 0; stage < state.size(); ++stage) {
      if (pipeline_.rank_of(static_cast<int64_t>(stage)) == rank) {
        slots += state[stage][0] - state[stage][2];
      }
    }
    return slots;
  }

  const Pipeline& pipeline_;
  int64_t slots_;
};

int64_t length(const Pipeline& pipeline) {
  return static_cast<int64_t>(play(pipeline, uniform(pipeline.stages(), {}))->makespan);
}

TEST(Optimum, NoScheduleIsShorterThanZbH1WithItsMemory) {
  for (const int64_t ranks : {2, 3}) {
    for (int64_t micro_batches = 1; micro_batches <= 4; ++micro_batches) {
      const Pipeline pipeline =
          *make_pipeline(Kind::kZeroBubbleH1, {.ranks = ranks, .micro_batches = micro_batches});
      EXPECT_EQ(length(pipeline), Search(pipeline, ranks).shortest())
          << ranks << " ranks, " << micro_batches << " micro-batches";
    }
  }
}

TEST(Optimum, NoScheduleIsShorterThanZbVWithItsMemory) {
  for (const auto& [ranks, micro_batches] : {std::pair{2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}}) {
    const PipelineShape shape{.ranks = ranks, .stages_per_rank = 2, .micro_batches = micro_batches};
    const Pipeline pipeline = *make_pipeline(Kind::kZeroBubbleV, shape);
    EXPECT_EQ(length(pipeline), Search(pipeline, 2 * ranks).shortest())
        << ranks << " ranks, " << micro_batches << " micro-batches";
  }
}

// With less memory the best schedule of all is longer: the search sees the limit.
TEST(Optimum, LessMemoryCostsTime) {
  const Pipeline pipeline = *make_pipeline(Kind::kZeroBubbleH1, {.ranks = 3, .micro_batches = 4});
  EXPECT_GT(Search(pipeline, 2).shortest(), Search(pipeline, 3).shortest());
}

}  // namespace
}  // namespace cadre::schedule
