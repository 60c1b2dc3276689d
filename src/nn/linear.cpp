#include "nn/linear.h"

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"

namespace cadre::nn {
namespace {

int64_t rows_of(const ParameterStack& stack) {
  int64_t rows = 0;
  for (const Parameter* member : stack.members) {
    rows += member->spec.box().size[0];
  }
  return rows;
}

std::vector<ParameterSpec> weights_of(const LinearSpec& spec) {
  std::vector<ParameterSpec> weights = spec.weights;
  for (ParameterSpec& weight : weights) {
    weight.transposed = spec.transposed;
  }
  return weights;
}

}  // namespace

Linear::Linear(ParameterUnit& unit, const LinearSpec& spec)
    : weight_(unit.declare(weights_of(spec))),
      bias_(spec.biases.empty() ? nullptr : &unit.declare(spec.biases)),
      transposed_(spec.transposed),
      output_width_(transposed_ ? spec.weights.front().box().size[1] : rows_of(weight_)) {
  CADRE_CHECK(!transposed_ || spec.weights.size() == 1, "transposed weights cannot be stacked");
  CADRE_CHECK(bias_ == nullptr || rows_of(*bias_) == output_width_, spec.biases.front().name,
              " has ", rows_of(*bias_), " values for an output of ", output_width_);
}

ConstTensor Linear::weight_OI() const {
  return transposed_ ? weight_.value().transposed() : weight_.value();
}

void Linear::infer(Context& context, Tensor y_TO, ConstTensor x_TI) const {
  const ConstTensor bias = bias_ == nullptr ? ConstTensor() : bias_->value();
  kernels::matmul(context, y_TO, x_TI, weight_OI().transposed(), {.bias_N = bias});
}

void Linear::forward(Context& context, Tensor y_TO, ConstTensor x_TI, Stash& stash) const {
  CADRE_CHECK(stash.x_TI.empty(), weight_.members.front()->spec.name,
              ": the slot's micro-batch is still in flight");
  infer(context, y_TO, x_TI);
  stash.x_TI = x_TI;
}

void Linear::backward_input(Context& context, Tensor dx_TI, ConstTensor dy_TO, Stash& stash) const {
  CADRE_CHECK(!stash.x_TI.empty(), weight_.members.front()->spec.name,
              ": backward without forward");
  kernels::matmul(context, dx_TI, dy_TO, weight_OI(), {});
  stash.dy_TO = dy_TO;
}

void Linear::backward_weight(Context& context, Stash& stash) const {
  CADRE_CHECK(!stash.dy_TO.empty(), weight_.members.front()->spec.name,
              ": no gradient of y in the stash");
  if (!weight_.frozen() && transposed_) {
    // The gradient is stored as I rows: (dy^T x)^T, so that the product writes row by row.
    kernels::matmul_add(context, weight_.whole_gradient, stash.x_TI.transposed(), stash.dy_TO);
  } else if (!weight_.frozen()) {
    kernels::matmul_add(context, weight_.whole_gradient, stash.dy_TO.transposed(), stash.x_TI);
  }
  if (bias_ != nullptr && !bias_->frozen()) {
    kernels::column_sum_add(context, bias_->whole_gradient, stash.dy_TO);
  }
  stash = {};
}

}  // namespace cadre::nn
