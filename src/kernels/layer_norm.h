// LayerNorm (Ba et al., 2016): moves each row of x to mean 0 and variance 1, then scales and
// shifts.
//
// Legend and rules as in kernels/rms_norm.h; weight, bias, mean and rstd are f32.

#pragma once

#include "device/context.h"
#include "kernels/rms_norm.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

//   mean = mean(x),  rstd = 1 / sqrt(mean((x - mean)^2) + epsilon)
//   y    = (x - mean) * rstd * weight + bias
void layer_norm_forward(Context& context, Tensor y_TD, Tensor mean_T, Tensor rstd_T,
                        ConstTensor x_TD, ConstTensor weight_D, ConstTensor bias_D,
                        const NormOptions& options);

//   sum = x + branch,  y = layer_norm(sum)      in one pass; sum may alias x or branch
void add_layer_norm_forward(Context& context, Tensor sum_TD, Tensor y_TD, Tensor mean_T,
                            Tensor rstd_T, ConstTensor x_TD, ConstTensor branch_TD,
                            ConstTensor weight_D, ConstTensor bias_D, const NormOptions& options);

//   n        = (x - mean) * rstd,  h = dy * weight
//   dx       = dresidual + rstd * (h - mean(h) - n * mean(h * n))
//   dweight += sum over rows of dy * n,  dbias += sum over rows of dy
//
// `dresidual` may be empty; dx may alias it or dy. `dweight` and `dbias` may be empty (frozen).
void layer_norm_backward(Context& context, Tensor dx_TD, Tensor dweight_D, Tensor dbias_D,
                         ConstTensor dy_TD, ConstTensor x_TD, ConstTensor weight_D,
                         ConstTensor mean_T, ConstTensor rstd_T, ConstTensor dresidual_TD);

// What a backend is asked for. `sum` and `branch` are empty where x is normalised as it is.
struct LayerNormForwardTask {
  Tensor sum_TD;
  Tensor y_TD;
  Tensor mean_T;
  Tensor rstd_T;
  ConstTensor x_TD;
  ConstTensor branch_TD;
  ConstTensor weight_D;
  ConstTensor bias_D;
  float epsilon = 0.0f;
};

struct LayerNormBackwardTask {
  Tensor dx_TD;
  Tensor dweight_D;
  Tensor dbias_D;
  ConstTensor dy_TD;
  ConstTensor x_TD;
  ConstTensor weight_D;
  ConstTensor mean_T;
  ConstTensor rstd_T;
  ConstTensor dresidual_TD;
};

struct LayerNormBackend {
  Target target;
  void (*forward)(Context& context, const LayerNormForwardTask& task);
  int64_t (*plan_backward_bytes)(const LayerNormBackwardTask& task);
  void (*backward)(Context& context, const LayerNormBackwardTask& task, std::byte* workspace);
};

namespace cpu {
extern const LayerNormBackend kLayerNormPlain;
extern const LayerNormBackend kLayerNormSimd;  // NEON
extern const LayerNormBackend kLayerNormAvx2;  // these two on x86-64
extern const LayerNormBackend kLayerNormAvx512;
}  // namespace cpu

}  // namespace cadre::kernels
