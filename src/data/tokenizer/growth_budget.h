// GrowthBudget: bounds how much longer a text may become by what a tokenizer.json asks for. Without
// it, a file of a few lines could ask for "a" to become "aa" a hundred times over.

#pragma once

#include <cstddef>

namespace cadre::data {

class GrowthBudget {
 public:
  static constexpr size_t kGrowthMax = 64;
  static constexpr size_t kStepsMax = 64;

  // A step that makes a text at most `factor` times as long. False: that is too much.
  bool spend(size_t factor) {
    const size_t times = factor < 1 ? 1 : factor;
    growth_ = times > kGrowthMax ? kGrowthMax + 1 : growth_ * times;
    return growth_ <= kGrowthMax && ++steps_ <= kStepsMax;
  }

 private:
  size_t growth_ = 1;
  size_t steps_ = 0;
};

}  // namespace cadre::data
