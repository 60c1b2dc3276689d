// The update of one parameter, each in one pass over memory: scale the gradient, move the moments,
// move the value, refresh the low-precision copy that layers compute with, clear the gradient.
//
// All tensors have the parameter's shape and are packed; all are f32 but `copy`, which is bf16 or
// f16, or empty where layers compute with the value itself.
//
// `scale_1` is one f32 that multiplies the gradient: 1 / (targets * loss scale), times the clip. If
// it is not finite (a gradient overflowed) the step is skipped: values and moments stay as they
// are, and the gradient is cleared all the same.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

struct UpdateTensors {
  Tensor value;
  Tensor copy;
  Tensor gradient;
};

struct AdamWOptions {
  float learning_rate = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  int64_t step = 1;  // from 1: the bias corrections are 1 - beta^step, taken in double
};

// Loshchilov and Hutter, 2019:
//   g = scale * gradient;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   value -= lr * decay * value
//   value -= lr * (m / correction1) / (sqrt(v / correction2) + epsilon)
void adamw_update(Context& context, const UpdateTensors& parameter, Tensor m, Tensor v,
                  ConstTensor scale_1, const AdamWOptions& options);

struct SgdOptions {
  float learning_rate = 0.0f;
  float momentum = 0.0f;
  bool nesterov = false;
  float weight_decay = 0.0f;
};

//   g = scale * gradient;  value -= lr * decay * value
//   momentum 0: value -= lr * g           (`m` is empty)
//   else:       m = momentum m + g;  value -= lr * (nesterov ? g + momentum m : m)
void sgd_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                const SgdOptions& options);

struct LionOptions {
  float learning_rate = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float weight_decay = 0.0f;
};

// Chen et al., 2023:
//   g = scale * gradient;  u = sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
//   value -= lr * (u + decay * value)
void lion_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                 const LionOptions& options);

// Muon (Jordan et al., 2024) in three steps; the orthogonalisation between the first and the last
// is optim/'s, made of matrix products.
//   g = scale * gradient;  m = momentum m + g;  update = nesterov ? g + momentum m : m
// `update` is f32 and is overwritten; the gradient is cleared. If scale is not finite, m stays and
// the update is zero.
void muon_momentum(Context& context, Tensor update, Tensor m, Tensor gradient, ConstTensor scale_1,
                   float momentum, bool nesterov);

//   value -= lr * (update_scale * update + decay * value);  copy = value
void muon_apply(Context& context, Tensor value, Tensor copy, ConstTensor update,
                ConstTensor scale_1, float learning_rate, float update_scale, float weight_decay);

//   sum_1 = sum of squares of x      in double, in an order that depends on the shape only
void squared_sum(Context& context, Tensor sum_1, ConstTensor x);

struct GradientScaleOptions {
  float loss_scale = 1.0f;
  float max_norm = 0.0f;  // 0: no clipping
};

//   norm_1  = sqrt(sum of squared_P) / (count * loss_scale)
//   scale_1 = 1 / (count * loss_scale) * (max_norm > 0 ? min(1, max_norm / (norm + 1e-6)) : 1)
//
// `squared_P` has the squared sums of all gradients of the step. A count of 0 (no target in the
// whole batch) gives scale 0 and norm 0; a sum that is not finite gives NaN for both.
void gradient_scale(Context& context, Tensor scale_1, Tensor norm_1, ConstTensor squared_P,
                    ConstTensor count_1, const GradientScaleOptions& options);

// What a backend is asked for.
struct OptimizerBackend {
  Target target;
  decltype(&kernels::adamw_update) adamw_update;
  decltype(&kernels::sgd_update) sgd_update;
  decltype(&kernels::lion_update) lion_update;
  decltype(&kernels::muon_momentum) muon_momentum;
  decltype(&kernels::muon_apply) muon_apply;
  int64_t (*plan_squared_sum_bytes)(ConstTensor x);
  void (*squared_sum)(Context& context, Tensor sum_1, ConstTensor x, std::byte* workspace);
};

namespace cpu {
extern const OptimizerBackend kOptimizerPlain;
extern const OptimizerBackend kOptimizerSimd;  // NEON
extern const OptimizerBackend kOptimizerAvx2;  // these two on x86-64
extern const OptimizerBackend kOptimizerAvx512;

// A few numbers: the same on every CPU.
void gradient_scale(Context& context, Tensor scale_1, Tensor norm_1, ConstTensor squared_P,
                    ConstTensor count_1, const GradientScaleOptions& options);
}  // namespace cpu

}  // namespace cadre::kernels
