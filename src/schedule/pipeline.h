// A pipeline schedule is data: one list of instructions per rank. The step loop executes the lists,
// play() times them.
//
// A model is cut into stages 0, 1, ..., S-1. A rank holds one or more of them ("virtual" stages).
// Every micro-batch passes forward through all stages and then backward through all of them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cadre::schedule {

enum class Action {
  kForward,         // of one micro-batch, with its loss where the stage has the head
  kBackward,        // of input and weights together
  kBackwardInput,   // the gradient of the stage's input alone
  kBackwardWeight,  // the gradient of the stage's weights, at any time after kBackwardInput

  // A send begins after the computation that made its tensor, and nobody waits for it there.
  // A receive opens the buffer, early; who waits for it is the computation that reads it.
  kSendActivation,     // to the next stage
  kReceiveActivation,  // from the stage before
  kSendGradient,       // of the stage's input, to the stage before
  kReceiveGradient,    // of the stage's output, from the next stage
};

struct Instruction {
  Action action = Action::kForward;
  int64_t micro_batch = 0;
  int64_t stage = 0;  // of the rank that has the instruction
  int64_t peer = -1;  // the stage at the other end of a send or receive

  bool operator==(const Instruction&) const = default;
};

bool computes(Action action);
bool sends(Action action);
bool receives(Action action);

std::string_view name(Action action);                  // "forward"
std::string describe(const Instruction& instruction);  // "forward of micro-batch 2 on stage 1"

// The lists of all ranks. A tensor passes between neighbouring stages of one rank without a
// message. From one rank to another, messages are sent in the order in which they are received, so
// that a transport needs no labels; both kinds share that order.
struct Pipeline {
  int64_t micro_batches = 1;
  std::vector<int64_t> rank_of_stage;
  std::vector<std::vector<Instruction>> lists;  // by rank

  int64_t ranks() const { return static_cast<int64_t>(lists.size()); }
  int64_t stages() const { return static_cast<int64_t>(rank_of_stage.size()); }
  int64_t rank_of(int64_t stage) const { return rank_of_stage[static_cast<size_t>(stage)]; }
  const std::vector<Instruction>& list(int64_t rank) const {
    return lists[static_cast<size_t>(rank)];
  }
  // Whether what `stage` hands to `other` needs a message. False where there is no such stage.
  bool crosses(int64_t stage, int64_t other) const {
    return other >= 0 && other < stages() && rank_of(stage) != rank_of(other);
  }
};

// What a generator is told.
struct PipelineShape {
  int64_t ranks = 1;
  int64_t stages_per_rank = 1;
  int64_t micro_batches = 1;

  int64_t stages() const { return ranks * stages_per_rank; }
};

// A pipeline without instructions whose stages go round the ranks: stage s is on rank s mod R.
Pipeline round_robin(const PipelineShape& shape);

// A pipeline without instructions whose two stages per rank go down the ranks and back up: stage s
// is on rank s, and stage R+s on rank R-1-s.
Pipeline down_and_up(const PipelineShape& shape);

// One stage that holds the whole model: each micro-batch forward and backward, so that one slot is
// enough.
std::vector<Instruction> single_stage(int64_t micro_batches);

}  // namespace cadre::schedule
