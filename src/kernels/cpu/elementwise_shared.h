// What the CPU backends of elementwise kernels share.

#pragma once

#include <cmath>
#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels::cpu {

// As fast as memory without any vectors of ours.
void clear_rows(Context& context, Tensor y);

int64_t plan_column_sum_bytes(ConstTensor x_TD);

// A word below it drops its element: probability * 2^32, rounded.
inline uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(std::llround(static_cast<double>(probability) * 4294967296.0));
}

}  // namespace cadre::kernels::cpu
