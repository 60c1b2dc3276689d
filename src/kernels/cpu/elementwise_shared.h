// What the CPU backends of elementwise kernels share.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels::cpu {

// As fast as memory without any vectors of ours.
void clear_rows(Context& context, Tensor y);

int64_t plan_column_sum_bytes(ConstTensor x_TD);

}  // namespace cadre::kernels::cpu
