// RMSNorm (Zhang and Sennrich, 2019): scales each row of x to unit root-mean-square, then by a
// learned weight.
//
// Legend: T rows (tokens), D columns (model width). A suffix names a tensor's dimensions, so
// x_TD has T rows of D values and rstd_T has one value per row. Rows may also be heads: where x has
// rank 3, [T, H, D], so have y and dx, and rstd is [T, H].
//
// Rules shared by all kernels: the context comes first, then outputs, which alias inputs only where
// it says so. Nothing is returned to the host. Activation gradients are overwritten; weight
// gradients are added to, so that the micro-batches of one step sum. Activations are f32, bf16 or
// f16, all of one call the same; weights of norms, statistics and weight gradients are f32; sums
// are taken in fp32. The last dimension is packed, others may be strided.

#pragma once

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

struct NormOptions {
  float epsilon = 1e-5f;  // added to the mean square (or the variance), inside the square root
};

//   rstd = 1 / sqrt(mean(x^2) + epsilon)
//   y    = x * rstd * weight
void rms_norm_forward(Context& context, Tensor y_TD, Tensor rstd_T, ConstTensor x_TD,
                      ConstTensor weight_D, const NormOptions& options);

//   sum = x + branch,  y = rms_norm(sum)      in one pass; sum may alias x or branch
//
// What is normalised is sum as it was stored, rounded to its dtype.
void add_rms_norm_forward(Context& context, Tensor sum_TD, Tensor y_TD, Tensor rstd_T,
                          ConstTensor x_TD, ConstTensor branch_TD, ConstTensor weight_D,
                          const NormOptions& options);

//   h        = dy * weight
//   dx       = dresidual + rstd * (h - x * rstd^2 * mean(h * x))
//   dweight += sum over rows of dy * x * rstd
//
// The second term is there because every x of a row moves that row's rstd. `dresidual` may be empty
// (then it counts as 0), and dx may alias it or dy. `dweight` may be empty (frozen): the sum over
// rows is then not taken. The sums are in an order that depends on shapes only.
void rms_norm_backward(Context& context, Tensor dx_TD, Tensor dweight_D, ConstTensor dy_TD,
                       ConstTensor x_TD, ConstTensor weight_D, ConstTensor rstd_T,
                       ConstTensor dresidual_TD);

// What a backend is asked for. `sum` and `branch` are empty where x is normalised as it is.
struct RmsNormForwardTask {
  Tensor sum_TD;
  Tensor y_TD;
  Tensor rstd_T;
  ConstTensor x_TD;
  ConstTensor branch_TD;
  ConstTensor weight_D;
  float epsilon = 0.0f;
};

struct RmsNormBackwardTask {
  Tensor dx_TD;
  Tensor dweight_D;
  ConstTensor dy_TD;
  ConstTensor x_TD;
  ConstTensor weight_D;
  ConstTensor rstd_T;
  ConstTensor dresidual_TD;
};

struct RmsNormBackend {
  Target target;
  void (*forward)(Context& context, const RmsNormForwardTask& task);
  int64_t (*plan_backward_bytes)(const RmsNormBackwardTask& task);
  void (*backward)(Context& context, const RmsNormBackwardTask& task, std::byte* workspace);
};

namespace cpu {
extern const RmsNormBackend kRmsNormPlain;
extern const RmsNormBackend kRmsNormSimd;  // NEON
extern const RmsNormBackend kRmsNormAvx2;  // these two on x86-64
extern const RmsNormBackend kRmsNormAvx512;
}  // namespace cpu

}  // namespace cadre::kernels
