// LossScale: the factor of the mean loss that keeps small gradients of fp16 above its smallest
// number (Micikevicius et al., 2018). Halved when a gradient overflows, doubled after enough steps
// without.

#pragma once

#include <cstdint>

namespace cadre::optim {

class LossScale {
 public:
  static constexpr double kFloor = 1.0;
  static constexpr double kCeiling = 16777216.0;  // 2^24

  LossScale(double initial, int64_t window) : value_(initial), window_(window) {}

  double value() const { return value_; }
  int64_t good_steps() const { return good_steps_; }  // since the scale last changed

  // The seed of the backward pass, whose loss is a sum: the value over `tokens`, those of the whole
  // global batch, rounded to a power of two so that no bit of a gradient depends on it.
  float seed(int64_t tokens) const;

  // After a step. False: it overflowed at the floor, and no scale can save such a gradient.
  [[nodiscard]] bool update(bool overflowed);

  void restore(double value, int64_t good_steps) {
    value_ = value;
    good_steps_ = good_steps;
  }

 private:
  double value_;
  int64_t window_;
  int64_t good_steps_ = 0;
};

}  // namespace cadre::optim
