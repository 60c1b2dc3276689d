// Small operations on whole tensors: copies that change the dtype, sums, dropout.
//
// Tensors are f32, bf16 or f16; views may be strided, but the last dimension is packed.

#pragma once

#include <cstdint>

#include "base/random.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

//   y = x, rounded to y's dtype; same shape
void convert(Context& context, Tensor y, ConstTensor x);

//   y = a + b      one dtype; y may alias either
void add(Context& context, Tensor y, ConstTensor a, ConstTensor b);

//   y = 0
void clear(Context& context, Tensor y);

//   sum_D += sum over rows of x_TD      sum is f32; rows in an order that depends on shapes only
void column_sum_add(Context& context, Tensor sum_D, ConstTensor x_TD);

// Which numbers decide what is dropped: the same for every layout of the run.
struct DropoutOptions {
  float probability = 0.0f;  // of an element to become 0; below 1
  RandomKey key;             // of the seed; the stream holds optimizer step, layer and place
  int64_t first_row = 0;     // row 0 of x is this row of the global batch: slot * length + position
};

//   y = x / (1 - probability) where word (first_row + t) * D + d of the key keeps it, else 0
//
// The backward pass is the same function of dy. y may alias x.
void dropout(Context& context, Tensor y_TD, ConstTensor x_TD, const DropoutOptions& options);

// What a backend is asked for.
struct ElementwiseBackend {
  Target target;
  decltype(&kernels::convert) convert;
  decltype(&kernels::add) add;
  decltype(&kernels::clear) clear;
  int64_t (*plan_column_sum_bytes)(ConstTensor x_TD);
  void (*column_sum_add)(Context& context, Tensor sum_D, ConstTensor x_TD, std::byte* workspace);
  decltype(&kernels::dropout) dropout;
};

namespace cpu {
extern const ElementwiseBackend kElementwisePlain;
extern const ElementwiseBackend kElementwiseSimd;  // NEON
extern const ElementwiseBackend kElementwiseAvx2;  // these two on x86-64
extern const ElementwiseBackend kElementwiseAvx512;
}  // namespace cpu

}  // namespace cadre::kernels
