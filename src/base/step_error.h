// StepError: the world failed in the middle of a training step, or of a pass that is like one. A
// run catches it in train_run(), and nowhere deeper; commands without a run report it and end.

#pragma once

#include <stdexcept>
#include <string>

namespace cadre {

class StepError : public std::runtime_error {
 public:
  explicit StepError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace cadre
