#include "schedule/slots.h"

#include <algorithm>
#include <set>
#include <utility>

namespace cadre::schedule {
namespace {

class Count {
 public:
  void run(const Instruction& instruction) {
    begin(instruction);
    most_ = {.slots = std::max(most_.slots, now_.slots),
             .before_input = std::max(most_.before_input, now_.before_input),
             .before_weight = most_.before_weight,
             .receives = std::max(most_.receives, now_.receives)};
    end(instruction);
  }

  const InFlight& most() const { return most_; }

 private:
  using Key = std::pair<int64_t, int64_t>;

  static Key key(const Instruction& instruction) {
    return {instruction.stage, instruction.micro_batch};
  }

  void begin(const Instruction& instruction) {
    switch (instruction.action) {
      case Action::kForward:
        ++now_.slots;
        ++now_.before_input;
        break;
      case Action::kReceiveActivation:
        activations_.insert(key(instruction));
        break;
      case Action::kReceiveGradient:
        gradients_.insert(key(instruction));
        break;
      default:
        break;
    }
    now_.receives = static_cast<int64_t>(activations_.size() + gradients_.size());
  }

  void end(const Instruction& instruction) {
    switch (instruction.action) {
      case Action::kForward:
        activations_.erase(key(instruction));
        break;
      case Action::kBackward:
        gradients_.erase(key(instruction));
        --now_.before_input;
        --now_.slots;
        break;
      case Action::kBackwardInput:
        gradients_.erase(key(instruction));
        --now_.before_input;
        ++now_.before_weight;
        most_.before_weight = std::max(most_.before_weight, now_.before_weight);
        break;
      case Action::kBackwardWeight:
        --now_.before_weight;
        --now_.slots;
        break;
      default:
        break;
    }
  }

  InFlight now_;
  InFlight most_;
  std::set<Key> activations_;  // received and not read yet
  std::set<Key> gradients_;
};

}  // namespace

InFlight in_flight(const std::vector<Instruction>& list, std::optional<int64_t> stage) {
  Count count;
  for (const Instruction& instruction : list) {
    if (!stage || instruction.stage == *stage) {
      count.run(instruction);
    }
  }
  return count.most();
}

}  // namespace cadre::schedule
