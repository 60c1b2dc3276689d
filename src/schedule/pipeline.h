// A pipeline schedule is data: one list of instructions per rank. The step loop executes it, the
// planner prices it.

#pragma once

#include <cstdint>
#include <vector>

namespace cadre::schedule {

enum class Action {
  kForward,   // of one micro-batch, with its loss where the stage has the head
  kBackward,  // of input and weights together
};

struct Instruction {
  Action action = Action::kForward;
  int64_t micro_batch = 0;

  bool operator==(const Instruction&) const = default;
};

// One stage that holds the whole model: each micro-batch forward and backward, so that one slot is
// enough.
inline std::vector<Instruction> single_stage(int64_t micro_batches) {
  std::vector<Instruction> list;
  for (int64_t m = 0; m < micro_batches; ++m) {
    list.push_back({.action = Action::kForward, .micro_batch = m});
    list.push_back({.action = Action::kBackward, .micro_batch = m});
  }
  return list;
}

}  // namespace cadre::schedule
