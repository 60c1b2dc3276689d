#include "schedule/messages.h"

#include <deque>
#include <utility>

#include "base/check.h"

namespace cadre::schedule {

std::optional<Instruction> sent_after(const Pipeline& pipeline, const Instruction& instruction) {
  const int64_t stage = instruction.stage;
  const bool forward = instruction.action == Action::kForward;
  if (instruction.action == Action::kBackwardWeight) {
    return std::nullopt;
  }
  const int64_t peer = forward ? stage + 1 : stage - 1;
  if (!pipeline.crosses(stage, peer)) {
    return std::nullopt;
  }
  return Instruction{.action = forward ? Action::kSendActivation : Action::kSendGradient,
                     .micro_batch = instruction.micro_batch,
                     .stage = stage,
                     .peer = peer};
}

std::optional<Instruction> received_before(const Pipeline& pipeline,
                                           const Instruction& instruction) {
  const int64_t stage = instruction.stage;
  const bool forward = instruction.action == Action::kForward;
  if (instruction.action == Action::kBackwardWeight) {
    return std::nullopt;
  }
  const int64_t peer = forward ? stage - 1 : stage + 1;
  if (!pipeline.crosses(stage, peer)) {
    return std::nullopt;
  }
  return Instruction{.action = forward ? Action::kReceiveActivation : Action::kReceiveGradient,
                     .micro_batch = instruction.micro_batch,
                     .stage = stage,
                     .peer = peer};
}

Instruction other_end(const Instruction& send) {
  CADRE_CHECK(sends(send.action), describe(send));
  return {.action = send.action == Action::kSendActivation ? Action::kReceiveActivation
                                                           : Action::kReceiveGradient,
          .micro_batch = send.micro_batch,
          .stage = send.peer,
          .peer = send.stage};
}

namespace {

// With 1, only gpipe is safe where sends block; with 2, interleaved_1f1b and zb_v still hang; with
// 3 no schedule does (play_test.cpp).
constexpr int64_t kReceivesAhead = 3;

// Receives that are not open yet, by the rank that sends: in the order of sending.
using Closed = std::vector<std::deque<Instruction>>;

// Opens every receive from the sender of `wanted`, up to `wanted`; none where it is open already.
void open(std::vector<Instruction>& list, std::deque<Instruction>& closed,
          const Instruction& wanted) {
  size_t count = 0;
  while (count < closed.size() && closed[count] != wanted) {
    ++count;
  }
  if (count == closed.size()) {
    return;
  }
  for (size_t i = 0; i <= count; ++i) {
    list.push_back(closed.front());
    closed.pop_front();
  }
}

std::vector<Instruction> with_messages(const Pipeline& pipeline,
                                       const std::vector<Instruction>& computations,
                                       Closed closed) {
  std::vector<Instruction> list;
  size_t reader = 0;  // the first computation whose receive was not asked for yet
  int64_t ahead = 0;  // computations that read a message, from the next one up to `reader`
  for (const Instruction& computation : computations) {
    while (reader < computations.size() && ahead < kReceivesAhead) {
      if (const auto wanted = received_before(pipeline, computations[reader])) {
        open(list, closed[static_cast<size_t>(pipeline.rank_of(wanted->peer))], *wanted);
        ++ahead;
      }
      ++reader;
    }
    list.push_back(computation);
    ahead -= received_before(pipeline, computation) ? 1 : 0;
    if (const auto send = sent_after(pipeline, computation)) {
      list.push_back(*send);
    }
  }
  return list;
}

}  // namespace

void add_messages(Pipeline& pipeline) {
  const size_t ranks = pipeline.lists.size();
  std::vector<Closed> closed(ranks, Closed(ranks));  // by receiving rank, by sending rank
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const Instruction& instruction : pipeline.lists[rank]) {
      CADRE_CHECK(computes(instruction.action), describe(instruction));
      if (const auto send = sent_after(pipeline, instruction)) {
        closed[static_cast<size_t>(pipeline.rank_of(send->peer))][rank].push_back(other_end(*send));
      }
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    pipeline.lists[rank] = with_messages(pipeline, pipeline.lists[rank], std::move(closed[rank]));
  }
}

}  // namespace cadre::schedule
