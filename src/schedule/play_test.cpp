#include "schedule/play.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "schedule/every_pipeline_test.h"
#include "schedule/generators.h"

namespace cadre::schedule {
namespace {

// The same rules as play(), one tick after the other, for costs that are whole numbers. Returns the
// length of the step; -1 when it never ends.
class Ticks {
 public:
  Ticks(const Pipeline& pipeline, const Costs& costs) : pipeline_(pipeline), costs_(costs) {}

  int64_t run() {
    std::vector<Rank> ranks(pipeline_.lists.size());
    constexpr int64_t kEnd = 10000;
    for (int64_t now = 0; now < kEnd; ++now) {
      // What takes no time can set off more of the same in one tick.
      for (bool changed = true; changed;) {
        changed = false;
        for (size_t r = 0; r < ranks.size(); ++r) {
          changed = step_rank(ranks[r], pipeline_.lists[r], now) || changed;
        }
        changed = step_channels(now) || changed;
      }
      bool ended = true;
      for (size_t r = 0; r < ranks.size(); ++r) {
        ended = ended && ranks[r].next == pipeline_.lists[r].size() && ranks[r].free_at <= now;
      }
      if (ended) {
        return now;
      }
    }
    return -1;
  }

 private:
  struct Rank {
    size_t next = 0;
    int64_t free_at = 0;
  };
  struct Channel {
    std::deque<Instruction> sent;
    std::deque<Instruction> opened;
    int64_t arrives_at = -1;  // of the message at the front of both; -1: not on its way
  };
  using Key = std::tuple<Action, int64_t, int64_t>;

  static Key key(const Instruction& i) { return {i.action, i.stage, i.micro_batch}; }

  bool step_rank(Rank& rank, const std::vector<Instruction>& list, int64_t now) {
    if (rank.free_at > now || rank.next == list.size()) {
      return false;
    }
    const Instruction& instruction = list[rank.next];
    const int64_t here = pipeline_.rank_of(instruction.stage);
    if (sends(instruction.action)) {
      channels_[{here, pipeline_.rank_of(instruction.peer)}].sent.push_back(instruction);
    } else if (receives(instruction.action)) {
      channels_[{pipeline_.rank_of(instruction.peer), here}].opened.push_back(instruction);
    } else {
      const auto message = received_before(pipeline_, instruction);
      if (message && !arrived_.contains(key(*message))) {
        return false;
      }
      rank.free_at = now + static_cast<int64_t>(costs_.of(instruction));
    }
    ++rank.next;
    return true;
  }

  bool step_channels(int64_t now) {
    bool changed = false;
    for (auto& [ends, channel] : channels_) {
      if (channel.arrives_at < 0 && !channel.sent.empty() && !channel.opened.empty()) {
        const Instruction& message = channel.sent.front();
        const int64_t boundary = std::min(message.stage, message.peer);
        channel.arrives_at =
            now + static_cast<int64_t>(costs_.messages[static_cast<size_t>(boundary)]);
        changed = true;
      }
      if (channel.arrives_at == now) {
        EXPECT_EQ(other_end(channel.sent.front()), channel.opened.front());
        arrived_.insert(key(channel.opened.front()));
        channel.sent.pop_front();
        channel.opened.pop_front();
        channel.arrives_at = -1;
        changed = true;
      }
    }
    return changed;
  }

  const Pipeline& pipeline_;
  const Costs& costs_;
  std::map<std::pair<int64_t, int64_t>, Channel> channels_;
  std::set<Key> arrived_;
};

Costs random_costs(int64_t stages, Dice& dice) {
  Costs costs;
  for (int64_t s = 0; s < stages; ++s) {
    costs.stages.push_back({.forward = static_cast<double>(1 + dice.below(9)),
                            .backward_input = static_cast<double>(1 + dice.below(9)),
                            .backward_weight = static_cast<double>(1 + dice.below(9)),
                            .backward = static_cast<double>(1 + dice.below(15))});
    if (s > 0) {
      costs.messages.push_back(static_cast<double>(dice.below(6)));
    }
  }
  return costs;
}

TEST(Play, TimesByHand) {
  const Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 2});
  const Costs costs =
      uniform(2, {.forward = 2, .backward_input = 2, .backward_weight = 1, .message = 1});
  const Playing playing = *play(pipeline, costs);
  // Rank 1: F0 3-5, B0 5-8, F1 8-10, B1 10-13. Rank 0: F0 0-2, F1 2-4, B0 9-12, B1 14-17.
  EXPECT_EQ(playing.makespan, 17.0);
  EXPECT_EQ(playing.ranks[0].begin, 0.0);
  EXPECT_EQ(playing.ranks[0].end, 17.0);
  EXPECT_EQ(playing.ranks[0].busy, 10.0);
  EXPECT_EQ(playing.ranks[0].bubble, 7.0);
  EXPECT_EQ(playing.ranks[1].begin, 3.0);
  EXPECT_EQ(playing.ranks[1].end, 13.0);
  EXPECT_EQ(playing.ranks[1].bubble, 7.0);
  EXPECT_DOUBLE_EQ(playing.bubble_fraction(), 7.0 / 17.0);
  // The list of rank 0: receive, receive, forward, send, forward, send, backward, backward.
  EXPECT_EQ(playing.spans[0][3].begin, 2.0);
  EXPECT_EQ(playing.spans[0][3].end, 3.0);
  EXPECT_EQ(playing.spans[0][1].begin, 13.0);
  EXPECT_EQ(playing.spans[0][1].end, 14.0);
  EXPECT_EQ(playing.spans[0][6].begin, 9.0);
}

TEST(Play, CostsOfOneRankAreItsWork) {
  const Costs costs = uniform(1, {.forward = 2, .backward_input = 3, .backward_weight = 4});
  const Pipeline pipeline{.micro_batches = 5, .rank_of_stage = {0}, .lists = {single_stage(5)}};
  EXPECT_EQ(play(pipeline, costs)->makespan, 45.0);
  EXPECT_EQ(play(pipeline, costs)->bubble_fraction(), 0.0);
}

TEST(Play, AgreesWithAClockOfTicksForEverySchedule) {
  Dice dice(1);
  for (const NamedPipeline& named : every_pipeline()) {
    const Costs costs = random_costs(named.pipeline.stages(), dice);
    EXPECT_EQ(static_cast<int64_t>(play(named.pipeline, costs)->makespan),
              Ticks(named.pipeline, costs).run())
        << named.name;
  }
}

TEST(Play, AgreesWithAClockOfTicksForRandomOrders) {
  Dice dice(2);
  for (int trial = 0; trial < 500; ++trial) {
    const Pipeline pipeline = random_pipeline(dice);
    const Costs costs = random_costs(pipeline.stages(), dice);
    const Result<Playing> playing = play(pipeline, costs);
    ASSERT_TRUE(playing.ok()) << playing.error().message;
    EXPECT_EQ(static_cast<int64_t>(playing->makespan), Ticks(pipeline, costs).run());
  }
}

TEST(Play, NamesWhereTheRanksWaitForEachOther) {
  const auto compute = [](Action action, int64_t micro_batch, int64_t stage) {
    return Instruction{.action = action, .micro_batch = micro_batch, .stage = stage};
  };
  Pipeline pipeline = round_robin({.ranks = 2, .micro_batches = 2});
  for (const int64_t m : {0, 1}) {
    pipeline.lists[0].push_back(compute(Action::kForward, m, 0));
    pipeline.lists[0].push_back(compute(Action::kBackward, m, 0));
  }
  for (const Action action : {Action::kForward, Action::kBackward}) {
    for (const int64_t m : {0, 1}) {
      pipeline.lists[1].push_back(compute(action, m, 1));
    }
  }
  add_messages(pipeline);
  const Costs costs = uniform(2, {});
  const Result<Playing> playing = play(pipeline, costs);
  ASSERT_FALSE(playing.ok());
  EXPECT_EQ(playing.error().message,
            "pipeline schedule: the ranks wait for each other: rank 0 before the backward of "
            "micro-batch 0 on stage 0; rank 1 before the forward of micro-batch 1 on stage 1");
  EXPECT_EQ(Ticks(pipeline, costs).run(), -1);
}

TEST(Play, RefusesASendThatNobodyReceives) {
  Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 2});
  auto& list = pipeline.lists[1];
  list.erase(std::ranges::find_if(list, [](const Instruction& i) { return receives(i.action); }));
  const Result<Playing> playing = play(pipeline, uniform(2, {}));
  ASSERT_FALSE(playing.ok());
  EXPECT_EQ(playing.error().message,
            "pipeline schedule: rank 1: forward of micro-batch 0 on stage 1 comes before its "
            "activation is received");
}

TEST(Play, ABlockingSendHoldsUpItsRank) {
  const Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 2});
  Costs costs = uniform(2, {.message = 1});
  EXPECT_EQ(play(pipeline, costs)->makespan, 11.0);
  costs.blocking_sends = true;
  // Rank 0: F0 0-1, F1 2-3, B0 6-8. Rank 1: F0 2-3, B0 3-5, F1 6-7, B1 7-9. Rank 0: B1 10-12.
  EXPECT_EQ(play(pipeline, costs)->makespan, 12.0);
  EXPECT_EQ(play(pipeline, costs)->ranks[0].busy, 6.0);
}

// Both ranks stand at a send that the other would open a receive for afterwards.
TEST(Play, NamesSendsThatBlockEachOther) {
  Pipeline pipeline = *make_pipeline(Kind::kOneFOneB, {.ranks = 2, .micro_batches = 2});
  for (auto& list : pipeline.lists) {
    std::erase_if(list, [](const Instruction& i) { return receives(i.action); });
    for (size_t i = 0; i < list.size(); ++i) {
      if (const auto wanted = received_before(pipeline, list[i]);
          computes(list[i].action) && wanted) {
        list.insert(list.begin() + static_cast<ptrdiff_t>(i), *wanted);
        ++i;
      }
    }
  }
  Costs costs = uniform(2, {});
  EXPECT_TRUE(play(pipeline, costs).ok());
  costs.blocking_sends = true;
  EXPECT_EQ(play(pipeline, costs).error().message,
            "pipeline schedule: the ranks wait for each other: rank 0 before the send of the "
            "activation of micro-batch 1 on stage 0 to stage 1; rank 1 before the send of the "
            "gradient of micro-batch 0 on stage 1 to stage 0");
}

TEST(Play, NoScheduleHangsWhereSendsBlock) {
  for (const NamedPipeline& named : every_pipeline()) {
    Costs costs = uniform(named.pipeline.stages(), {.message = 0.25});
    costs.blocking_sends = true;
    const Result<Playing> playing = play(named.pipeline, costs);
    EXPECT_TRUE(playing.ok()) << named.name << ": " << playing.error().message;
  }
}

// Two messages in one direction share the wire: the second begins when the first has arrived.
TEST(Play, MessagesOfOneDirectionFollowEachOther) {
  const Pipeline pipeline = *make_pipeline(Kind::kGpipe, {.ranks = 2, .micro_batches = 4});
  const Playing playing =
      *play(pipeline, uniform(2, {.forward = 1, .backward_input = 1, .message = 3}));
  std::vector<Span> sent;
  for (size_t i = 0; i < pipeline.list(0).size(); ++i) {
    if (pipeline.list(0)[i].action == Action::kSendActivation) {
      sent.push_back(playing.spans[0][i]);
    }
  }
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0].begin, 1.0);
  for (size_t i = 1; i < sent.size(); ++i) {
    EXPECT_GE(sent[i].begin, sent[i - 1].end);
  }
}

}  // namespace
}  // namespace cadre::schedule
