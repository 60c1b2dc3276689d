#include "nn/norm.h"

#include "base/check.h"
#include "kernels/layer_norm.h"
#include "kernels/rms_norm.h"

namespace cadre::nn {
namespace {

// [T, D] gives [T]; [T, H, D] gives [T, H].
Shape rows_of(const Shape& shape) {
  return shape.rank() == 2 ? Shape{shape[0]} : Shape{shape[0], shape[1]};
}

}  // namespace

Norm::Norm(ParameterUnit& unit, const Spec& spec)
    : kind_(spec.kind),
      epsilon_(static_cast<float>(spec.epsilon)),
      weight_(unit.declare({spec.weight})),
      bias_(spec.kind == NormKind::kLayer ? &unit.declare({spec.bias}) : nullptr) {}

void Norm::allocate_statistics(Arena& activations, ConstTensor x_TD, Stash& stash) const {
  CADRE_CHECK(stash.x_TD.empty(), weight_.members.front()->spec.name,
              ": the slot's micro-batch is still in flight");
  stash.rstd_T = allocate(activations, DType::kF32, rows_of(x_TD.shape));
  if (kind_ == NormKind::kLayer) {
    stash.mean_T = allocate(activations, DType::kF32, rows_of(x_TD.shape));
  }
}

void Norm::forward(Context& context, Arena& activations, Tensor y_TD, ConstTensor x_TD,
                   Stash& stash) const {
  allocate_statistics(activations, x_TD, stash);
  if (kind_ == NormKind::kRms) {
    kernels::rms_norm_forward(context, y_TD, stash.rstd_T, x_TD, weight_.value(),
                              {.epsilon = epsilon_});
  } else {
    kernels::layer_norm_forward(context, y_TD, stash.mean_T, stash.rstd_T, x_TD, weight_.value(),
                                bias_->value(), {.epsilon = epsilon_});
  }
  stash.x_TD = x_TD;
}

void Norm::add_forward(Context& context, Arena& activations, Tensor sum_TD, Tensor y_TD,
                       ConstTensor x_TD, ConstTensor branch_TD, Stash& stash) const {
  allocate_statistics(activations, x_TD, stash);
  if (kind_ == NormKind::kRms) {
    kernels::add_rms_norm_forward(context, sum_TD, y_TD, stash.rstd_T, x_TD, branch_TD,
                                  weight_.value(), {.epsilon = epsilon_});
  } else {
    kernels::add_layer_norm_forward(context, sum_TD, y_TD, stash.mean_T, stash.rstd_T, x_TD,
                                    branch_TD, weight_.value(), bias_->value(),
                                    {.epsilon = epsilon_});
  }
  stash.x_TD = sum_TD;
}

void Norm::backward(Context& context, Tensor dx_TD, ConstTensor dy_TD, ConstTensor dresidual_TD,
                    Stash& stash) const {
  CADRE_CHECK(!stash.x_TD.empty(), weight_.members.front()->spec.name,
              ": backward without forward");
  if (kind_ == NormKind::kRms) {
    kernels::rms_norm_backward(context, dx_TD, weight_.whole_gradient, dy_TD, stash.x_TD,
                               weight_.value(), stash.rstd_T, dresidual_TD);
  } else {
    kernels::layer_norm_backward(context, dx_TD, weight_.whole_gradient, bias_->whole_gradient,
                                 dy_TD, stash.x_TD, weight_.value(), stash.mean_T, stash.rstd_T,
                                 dresidual_TD);
  }
  stash = {};
}

}  // namespace cadre::nn
