#include "schedule/play.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "schedule/check.h"
#include "schedule/messages.h"

namespace cadre::schedule {

double Costs::of(const Instruction& computation) const {
  const StageCosts& costs = stages[static_cast<size_t>(computation.stage)];
  switch (computation.action) {
    case Action::kForward:
      return costs.forward;
    case Action::kBackward:
      return costs.backward;
    case Action::kBackwardInput:
      return costs.backward_input;
    case Action::kBackwardWeight:
      return costs.backward_weight;
    default:
      CADRE_CHECK(false, describe(computation), " is no computation");
  }
}

Costs uniform(int64_t stages, const UniformCosts& costs) {
  const StageCosts stage{.forward = costs.forward,
                         .backward_input = costs.backward_input,
                         .backward_weight = costs.backward_weight,
                         .backward = costs.backward_input + costs.backward_weight};
  const auto count = static_cast<size_t>(stages);
  return {.stages = std::vector<StageCosts>(count, stage),
          .messages = std::vector<double>(count - 1, costs.message)};
}

double Playing::bubble_fraction() const {
  double bubble = 0.0;
  for (const RankTimes& rank : ranks) {
    bubble += rank.bubble;
  }
  return makespan > 0.0 ? bubble / (makespan * static_cast<double>(ranks.size())) : 0.0;
}

namespace {

// One end of a message: when the rank came to the instruction, and where its span is kept.
struct Arrival {
  double at = 0.0;
  double cost = 0.0;
  Span* span = nullptr;
};

// The messages from one rank to another. check() has made sure that both ends name them in the same
// order, so that message i is entry i of both lists.
struct Channel {
  std::vector<Arrival> sent;
  std::vector<Arrival> opened;
  size_t travelled = 0;
  double free_at = 0.0;
};

class Player {
 public:
  Player(const Pipeline& pipeline, const Costs& costs)
      : pipeline_(pipeline),
        costs_(costs),
        channels_(pipeline.lists.size() * pipeline.lists.size()),
        ranks_(pipeline.lists.size()) {
    playing_.ranks.resize(pipeline.lists.size());
    for (const std::vector<Instruction>& list : pipeline.lists) {
      playing_.spans.emplace_back(list.size());
    }
    const auto count = static_cast<size_t>(pipeline.stages() * pipeline.micro_batches);
    activations_.resize(count);
    gradients_.resize(count);
  }

  Result<Playing> play() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (advance(rank)) {
          moved = true;
        }
      }
    }
    const std::string standing = who_stands();
    if (!standing.empty()) {
      return failure("pipeline schedule: the ranks wait for each other: ", standing);
    }
    finish();
    return std::move(playing_);
  }

 private:
  struct Position {
    size_t next = 0;
    double time = 0.0;
    bool began = false;
    bool came = false;  // to the message that is next, but has not left it
  };

  Channel& channel(int64_t from, int64_t to) {
    return channels_[static_cast<size_t>(from * pipeline_.ranks() + to)];
  }

  // Where the message is kept that a computation reads; nullptr: it reads none.
  const Span* read_by(const Instruction& instruction, bool& waits) const {
    const auto message = received_before(pipeline_, instruction);
    if (!message) {
      return nullptr;
    }
    const auto& open = message->action == Action::kReceiveActivation ? activations_ : gradients_;
    const Open& found = open[index(*message)];
    waits = found.channel->travelled <= found.number;
    return found.span;
  }

  size_t index(const Instruction& instruction) const {
    return static_cast<size_t>(instruction.stage * pipeline_.micro_batches +
                               instruction.micro_batch);
  }

  // Runs the next instruction of a rank, if what it needs has a time.
  bool advance(size_t rank) {
    Position& position = ranks_[rank];
    if (position.next == pipeline_.lists[rank].size()) {
      return false;
    }
    const Instruction& instruction = pipeline_.lists[rank][position.next];
    Span& span = playing_.spans[rank][position.next];
    if (!computes(instruction.action)) {
      if (!position.came) {
        come_to(instruction, position.time, span);
        position.came = true;
      }
      if (costs_.blocking_sends && sends(instruction.action)) {
        const Channel& between =
            channel(pipeline_.rank_of(instruction.stage), pipeline_.rank_of(instruction.peer));
        if (between.travelled < between.sent.size()) {
          return false;
        }
        position.time = span.end;
      }
      position.came = false;
    } else if (!compute(instruction, rank, span)) {
      return false;
    }
    ++position.next;
    return true;
  }

  void come_to(const Instruction& message, double time, Span& span) {
    const int64_t here = pipeline_.rank_of(message.stage);
    const int64_t there = pipeline_.rank_of(message.peer);
    const bool sent = sends(message.action);
    Channel& between = sent ? channel(here, there) : channel(there, here);
    const auto boundary = static_cast<size_t>(std::min(message.stage, message.peer));
    (sent ? between.sent : between.opened)
        .push_back({.at = time, .cost = costs_.messages[boundary], .span = &span});
    if (!sent) {
      auto& open = message.action == Action::kReceiveActivation ? activations_ : gradients_;
      open[index(message)] = {
          .channel = &between, .number = between.opened.size() - 1, .span = &span};
    }
    travel(between);
  }

  static void travel(Channel& between) {
    while (between.travelled < std::min(between.sent.size(), between.opened.size())) {
      const Arrival& sent = between.sent[between.travelled];
      const Arrival& opened = between.opened[between.travelled];
      const double begin = std::max({sent.at, opened.at, between.free_at});
      between.free_at = begin + sent.cost;
      *sent.span = *opened.span = {.begin = begin, .end = between.free_at};
      ++between.travelled;
    }
  }

  bool compute(const Instruction& instruction, size_t rank, Span& span) {
    Position& position = ranks_[rank];
    bool waits = false;
    const Span* message = read_by(instruction, waits);
    if (waits) {
      return false;
    }
    const double begin = message ? std::max(position.time, message->end) : position.time;
    const double cost = costs_.of(instruction);
    span = {.begin = begin, .end = begin + cost};
    RankTimes& times = playing_.ranks[rank];
    times.begin = position.began ? times.begin : begin;
    times.end = span.end;
    times.busy += cost;
    position.began = true;
    position.time = span.end;
    return true;
  }

  std::string who_stands() const {
    std::string text;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<Instruction>& list = pipeline_.lists[rank];
      if (ranks_[rank].next < list.size()) {
        text += concat(text.empty() ? "" : "; ", "rank ", rank, " before the ",
                       describe(list[ranks_[rank].next]));
      }
    }
    return text;
  }

  void finish() {
    double first = playing_.ranks.front().begin;
    double last = 0.0;
    for (const RankTimes& rank : playing_.ranks) {
      first = std::min(first, rank.begin);
      last = std::max(last, rank.end);
    }
    playing_.makespan = last - first;
    for (RankTimes& rank : playing_.ranks) {
      rank.bubble = playing_.makespan - rank.busy;
    }
  }

  // An open receive: its place in its channel.
  struct Open {
    const Channel* channel = nullptr;
    size_t number = 0;
    const Span* span = nullptr;
  };

  const Pipeline& pipeline_;
  const Costs& costs_;
  std::vector<Channel> channels_;  // by sender and receiver
  std::vector<Position> ranks_;
  std::vector<Open> activations_;  // by stage and micro-batch
  std::vector<Open> gradients_;
  Playing playing_;
};

}  // namespace

Result<Playing> play(const Pipeline& pipeline, const Costs& costs) {
  if (const Status whole = check(pipeline); !whole) {
    return whole.error();
  }
  CADRE_CHECK_EQ(static_cast<int64_t>(costs.stages.size()), pipeline.stages());
  CADRE_CHECK_EQ(costs.messages.size() + 1, costs.stages.size());
  return Player(pipeline, costs).play();
}

}  // namespace cadre::schedule
