#include "optim/loss_scale.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace cadre::optim {

float LossScale::seed(int64_t tokens) const {
  CADRE_CHECK(tokens > 0, tokens);
  return static_cast<float>(value_ /
                            static_cast<double>(std::bit_floor(static_cast<uint64_t>(tokens))));
}

bool LossScale::update(bool overflowed) {
  if (!overflowed) {
    if (++good_steps_ >= window_) {
      value_ = std::min(2.0 * value_, kCeiling);
      good_steps_ = 0;
    }
    return true;
  }
  good_steps_ = 0;
  const bool can_shrink = value_ > kFloor;
  value_ = std::max(value_ / 2.0, kFloor);
  return can_shrink;
}

}  // namespace cadre::optim
