// The MLP's elementwise part.
//
// Legend: T tokens, F width of the MLP. f32, bf16 or f16, all of one call the same.

#pragma once

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

// SwiGLU (Shazeer, 2020). Row t of gate_up holds F values of gate, then F of up.
//   y = silu(gate) * up,  silu(x) = x / (1 + exp(-x))
void swiglu_forward(Context& context, Tensor y_TF, ConstTensor gate_up_T2F);

//   dup   = dy * silu(gate)
//   dgate = dy * up * s (1 + gate (1 - s)),  s = 1 / (1 + exp(-gate))
//
// dgate_up has the layout of gate_up and may alias it.
void swiglu_backward(Context& context, Tensor dgate_up_T2F, ConstTensor dy_TF,
                     ConstTensor gate_up_T2F);

// GELU in its tanh form (Hendrycks and Gimpel, 2016), as GPT-2 has it.
//   y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
void gelu_forward(Context& context, Tensor y_TF, ConstTensor x_TF);

// dx may alias x or dy.
void gelu_backward(Context& context, Tensor dx_TF, ConstTensor dy_TF, ConstTensor x_TF);

struct ActivationBackend {
  Target target;
  decltype(&kernels::swiglu_forward) swiglu_forward;
  decltype(&kernels::swiglu_backward) swiglu_backward;
  decltype(&kernels::gelu_forward) gelu_forward;
  decltype(&kernels::gelu_backward) gelu_backward;
};

namespace cpu {
extern const ActivationBackend kActivationPlain;
extern const ActivationBackend kActivationSimd;  // NEON
extern const ActivationBackend kActivationAvx2;  // these two on x86-64
extern const ActivationBackend kActivationAvx512;
}  // namespace cpu

}  // namespace cadre::kernels
