// Linear combinations of whole f32 tensors, for optimizers that work on matrices.

#pragma once

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

//   y = alpha x + beta y      both f32, packed and of one shape; y may be x
void combine(Context& context, Tensor y, ConstTensor x, float alpha, float beta);

//   y = x / (sqrt(squared_1) + 1e-7)      y may be x; squared_1 is one f32, the sum of squares of x
void scale_to_unit_norm(Context& context, Tensor y, ConstTensor x, ConstTensor squared_1);

// What a backend is asked for.
struct CombineBackend {
  Target target;
  decltype(&kernels::combine) combine;
  decltype(&kernels::scale_to_unit_norm) scale_to_unit_norm;
};

namespace cpu {
extern const CombineBackend kCombinePlain;
}

}  // namespace cadre::kernels
