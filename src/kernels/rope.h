// Rotary position embedding (Su et al., 2021) in Hugging Face's layout: channel i of the first half
// of a head turns together with channel i of the second half.
//
// Legend: T tokens, H heads, D head width (even), P positions of the table.

#pragma once

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

enum class Rotation { kForward, kBackward };  // backward: the transpose, which turns the other way

//   x[t, h, i]       = x[i] cos - x[i + D/2] sin        with cos = table[position[t], i],
//   x[t, h, i + D/2] = x[i + D/2] cos + x[i] sin             sin = table[position[t], i + D/2]
//
// In place. x is f32, bf16 or f16 and packed in D; table is f32; positions are i32 in [0, P).
// kBackward turns by -sin. What scales the rotation (yarn) is in the table.
void rope_apply(Context& context, Tensor x_THD, ConstTensor table_PD, ConstTensor position_T,
                Rotation rotation);

// What a backend is asked for.
struct RopeTask {
  Tensor x_THD;
  ConstTensor table_PD;
  ConstTensor position_T;
  Rotation rotation = Rotation::kForward;
};

struct RopeBackend {
  Target target = Target::kCpu;
  void (*run)(Context& context, const RopeTask& task) = nullptr;
  bool half_floats = true;  // f16 among the dtypes

  bool takes(DType dtype) const { return half_floats || dtype != DType::kF16; }
};

namespace cpu {
extern const RopeBackend kRopePlain;
extern const RopeBackend kRopeSimd;
#if defined(__x86_64__)
extern const RopeBackend kRopeAvx2;
extern const RopeBackend kRopeAvx512;
#endif
}  // namespace cpu

}  // namespace cadre::kernels
