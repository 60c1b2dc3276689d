// Norm: RMSNorm or LayerNorm of each row, on one device.
//
// Legend: T rows (tokens, or [T, H] heads), D columns.

#pragma once

#include "device/context.h"
#include "nn/parameter.h"
#include "spec/model.h"
#include "tensor/tensor.h"

namespace cadre::nn {

class Norm {
 public:
  struct Spec {
    NormKind kind = NormKind::kRms;
    double epsilon = 1e-5;
    ParameterSpec weight = {};
    ParameterSpec bias = {};  // LayerNorm only
  };

  // What one micro-batch leaves: a view of x, and one or two numbers per row.
  struct Stash {
    ConstTensor x_TD;
    OwnedTensor mean_T;
    OwnedTensor rstd_T;
  };

  Norm(ParameterUnit& unit, const Spec& spec);

  //   y = norm(x)      statistics go into `activations`
  void forward(Context& context, Arena& activations, Tensor y_TD, ConstTensor x_TD,
               Stash& stash) const;

  //   sum = x + branch,  y = norm(sum)      sum may alias either, and must live as long as the
  //   stash
  void add_forward(Context& context, Arena& activations, Tensor sum_TD, Tensor y_TD,
                   ConstTensor x_TD, ConstTensor branch_TD, Stash& stash) const;

  //   dx = dresidual + gradient of norm at x;  the weights' gradients are added to
  //
  // Norms have no product to put off, so the weights' gradients are taken in the same pass.
  // `dresidual` may be empty; dx may alias it or dy. Empties the stash.
  void backward(Context& context, Tensor dx_TD, ConstTensor dy_TD, ConstTensor dresidual_TD,
                Stash& stash) const;

 private:
  void allocate_statistics(Arena& activations, ConstTensor x_TD, Stash& stash) const;

  NormKind kind_;
  float epsilon_;
  ParameterStack& weight_;
  ParameterStack* bias_;  // null for RMSNorm
};

}  // namespace cadre::nn
