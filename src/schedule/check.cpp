#include "schedule/check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "schedule/messages.h"

namespace cadre::schedule {
namespace {

// What has happened to one micro-batch on one stage, so far in the list.
struct Done {
  bool forward = false;
  bool backward_input = false;
  bool backward_weight = false;
  bool sent_activation = false;
  bool received_activation = false;
  bool sent_gradient = false;
  bool received_gradient = false;
};

// Reads the list of one rank from its beginning.
class ListCheck {
 public:
  ListCheck(const Pipeline& pipeline, int64_t rank)
      : pipeline_(pipeline),
        rank_(rank),
        done_(static_cast<size_t>(pipeline.stages() * pipeline.micro_batches)) {}

  // What is wrong with the list; empty: nothing.
  std::string read() {
    for (const Instruction& instruction : pipeline_.list(rank_)) {
      const std::string fault = read_one(instruction);
      if (!fault.empty()) {
        return concat("rank ", rank_, ": ", describe(instruction), " ", fault);
      }
    }
    return missing();
  }

 private:
  Done& of(int64_t stage, int64_t micro_batch) {
    return done_[static_cast<size_t>(stage * pipeline_.micro_batches + micro_batch)];
  }

  std::string read_one(const Instruction& instruction) {
    const auto [action, micro_batch, stage, peer] = instruction;
    if (stage < 0 || stage >= pipeline_.stages() || pipeline_.rank_of(stage) != rank_) {
      return "is for a stage that the rank does not hold";
    }
    if (micro_batch < 0 || micro_batch >= pipeline_.micro_batches) {
      return concat("is not one of ", pipeline_.micro_batches, " micro-batches");
    }
    switch (action) {
      case Action::kForward:
        return read_forward(instruction);
      case Action::kBackward:
        return read_backward(instruction);
      case Action::kBackwardInput:
        return read_backward_input(instruction);
      case Action::kBackwardWeight:
        return read_backward_weight(instruction);
      case Action::kSendActivation:
        return read_message(instruction, stage + 1, of(stage, micro_batch).sent_activation,
                            of(stage, micro_batch).forward);
      case Action::kReceiveActivation:
        return read_message(instruction, stage - 1, of(stage, micro_batch).received_activation,
                            !of(stage, micro_batch).forward);
      case Action::kSendGradient:
        return read_message(instruction, stage - 1, of(stage, micro_batch).sent_gradient,
                            of(stage, micro_batch).backward_input);
      case Action::kReceiveGradient:
        return read_message(instruction, stage + 1, of(stage, micro_batch).received_gradient,
                            !of(stage, micro_batch).backward_input);
    }
    return "is no action";
  }

  std::string read_forward(const Instruction& instruction) {
    const int64_t stage = instruction.stage;
    Done& done = of(stage, instruction.micro_batch);
    if (done.forward) {
      return "comes a second time";
    }
    if (pipeline_.crosses(stage, stage - 1) && !done.received_activation) {
      return "comes before its activation is received";
    }
    if (stage > 0 && !pipeline_.crosses(stage, stage - 1) &&
        !of(stage - 1, instruction.micro_batch).forward) {
      return "comes before that of the stage before, on the same rank";
    }
    done.forward = true;
    return "";
  }

  std::string read_backward_input(const Instruction& instruction) {
    const int64_t stage = instruction.stage;
    Done& done = of(stage, instruction.micro_batch);
    if (done.backward_input) {
      return "comes a second time";
    }
    if (!done.forward) {
      return "comes before its forward";
    }
    if (pipeline_.crosses(stage, stage + 1) && !done.received_gradient) {
      return "comes before its gradient is received";
    }
    if (stage + 1 < pipeline_.stages() && !pipeline_.crosses(stage, stage + 1) &&
        !of(stage + 1, instruction.micro_batch).backward_input) {
      return "comes before that of the next stage, on the same rank";
    }
    done.backward_input = true;
    return "";
  }

  std::string read_backward_weight(const Instruction& instruction) {
    Done& done = of(instruction.stage, instruction.micro_batch);
    if (done.backward_weight) {
      return "comes a second time";
    }
    if (!done.backward_input) {
      return "comes before the backward of the input";
    }
    done.backward_weight = true;
    return "";
  }

  std::string read_backward(const Instruction& instruction) {
    const std::string fault = read_backward_input(instruction);
    return fault.empty() ? read_backward_weight(instruction) : fault;
  }

  // `ready`: whether this is the right time for the message.
  std::string read_message(const Instruction& instruction, int64_t peer, bool& done, bool ready) {
    if (instruction.peer != peer || !pipeline_.crosses(instruction.stage, peer)) {
      return "is a message that nobody needs";
    }
    if (done) {
      return "comes a second time";
    }
    if (!ready) {
      return sends(instruction.action) ? "comes before the tensor is made"
                                       : "comes after the tensor is needed";
    }
    done = true;
    return "";
  }

  std::string missing() {
    for (int64_t stage = 0; stage < pipeline_.stages(); ++stage) {
      if (pipeline_.rank_of(stage) != rank_) {
        continue;
      }
      for (int64_t m = 0; m < pipeline_.micro_batches; ++m) {
        const Done& done = of(stage, m);
        if (const auto action = missing_of(done, stage)) {
          return concat("rank ", rank_, ": ",
                        describe({.action = *action,
                                  .micro_batch = m,
                                  .stage = stage,
                                  .peer = neighbour(*action, stage)}),
                        " is missing");
        }
      }
    }
    return "";
  }

  static int64_t neighbour(Action action, int64_t stage) {
    return action == Action::kSendActivation ? stage + 1 : stage - 1;
  }

  std::optional<Action> missing_of(const Done& done, int64_t stage) const {
    if (!done.forward) {
      return Action::kForward;
    }
    if (!done.backward_input) {
      return Action::kBackwardInput;
    }
    if (!done.backward_weight) {
      return Action::kBackwardWeight;
    }
    if (!done.sent_activation && pipeline_.crosses(stage, stage + 1)) {
      return Action::kSendActivation;
    }
    if (!done.sent_gradient && pipeline_.crosses(stage, stage - 1)) {
      return Action::kSendGradient;
    }
    return std::nullopt;
  }

  const Pipeline& pipeline_;
  int64_t rank_;
  std::vector<Done> done_;
};

// The messages from one rank to another, as receives, in the order of the list of `lists_of`.
std::vector<Instruction> messages(const Pipeline& pipeline, int64_t from, int64_t to,
                                  int64_t lists_of) {
  std::vector<Instruction> found;
  for (const Instruction& instruction : pipeline.list(lists_of)) {
    if (sends(instruction.action) && lists_of == from && pipeline.rank_of(instruction.peer) == to) {
      found.push_back(other_end(instruction));
    }
    if (receives(instruction.action) && lists_of == to &&
        pipeline.rank_of(instruction.peer) == from) {
      found.push_back(instruction);
    }
  }
  return found;
}

// Both lists are complete, so that there are as many sends as receives.
std::string compare_order(const Pipeline& pipeline, int64_t from, int64_t to) {
  const std::vector<Instruction> sent = messages(pipeline, from, to, from);
  const std::vector<Instruction> received = messages(pipeline, from, to, to);
  for (size_t i = 0; i < sent.size() && i < received.size(); ++i) {
    if (sent[i] != received[i]) {
      return concat("message ", i, " from rank ", from, " to rank ", to, " is sent for the ",
                    describe(sent[i]), ", and received as the ", describe(received[i]));
    }
  }
  return sent.size() == received.size()
             ? ""
             : concat("rank ", from, " sends ", sent.size(), " messages to rank ", to,
                      ", which receives ", received.size());
}

std::string placement_fault(const Pipeline& pipeline) {
  if (pipeline.micro_batches < 1 || pipeline.stages() < 1) {
    return concat("a pipeline of ", pipeline.stages(), " stages and ", pipeline.micro_batches,
                  " micro-batches does nothing");
  }
  for (int64_t stage = 0; stage < pipeline.stages(); ++stage) {
    if (pipeline.rank_of(stage) < 0 || pipeline.rank_of(stage) >= pipeline.ranks()) {
      return concat("stage ", stage, " is on rank ", pipeline.rank_of(stage), " of ",
                    pipeline.ranks());
    }
  }
  return "";
}

}  // namespace

Status check(const Pipeline& pipeline) {
  std::string fault = placement_fault(pipeline);
  for (int64_t rank = 0; rank < pipeline.ranks() && fault.empty(); ++rank) {
    fault = ListCheck(pipeline, rank).read();
  }
  for (int64_t from = 0; from < pipeline.ranks(); ++from) {
    for (int64_t to = 0; to < pipeline.ranks() && fault.empty(); ++to) {
      fault = compare_order(pipeline, from, to);
    }
  }
  return fault.empty() ? Status() : Status(failure("pipeline schedule: ", fault));
}

}  // namespace cadre::schedule
