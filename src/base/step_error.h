// StepError: the world failed in the middle of a training step. Only train/ catches it.

#pragma once

#include <stdexcept>
#include <string>

namespace cadre {

class StepError : public std::runtime_error {
 public:
  explicit StepError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace cadre
