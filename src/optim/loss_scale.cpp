#include "optim/loss_scale.h"

#include <algorithm>

namespace cadre::optim {

Status LossScale::update(bool overflowed) {
  if (!overflowed) {
    if (++good_steps_ >= window_) {
      value_ = std::min(2.0 * value_, kCeiling);
      good_steps_ = 0;
    }
    return {};
  }
  good_steps_ = 0;
  if (value_ <= kFloor) {
    return failure("the fp16 gradient overflows even with a loss scale of ", value_,
                   "; the loss diverges, or precision: bf16 has the range that is missing");
  }
  value_ = std::max(value_ / 2.0, kFloor);
  return {};
}

}  // namespace cadre::optim
