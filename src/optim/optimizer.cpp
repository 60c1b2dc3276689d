#include "optim/optimizer.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "optim/newton_schulz.h"

namespace cadre::optim {
namespace {

Tensor one_of(const OwnedTensor& values, size_t index) {
  return values.view().slice({.first = {static_cast<int64_t>(index)}, .size = {1}});
}

OwnedTensor cleared(Context& context, Arena& memory, const Shape& shape) {
  OwnedTensor tensor = allocate(memory, DType::kF32, shape);
  kernels::clear(context, tensor);
  return tensor;
}

// Outputs and inputs of the layer that a matrix belongs to, or each of those that are fused in it.
Shape shape_OI(const nn::ParameterSpec& matrix) {
  const Shape& whole = matrix.whole;
  CADRE_CHECK(whole[matrix.transposed ? 1 : 0] % matrix.fused == 0, matrix.name, " ", whole);
  return matrix.transposed ? Shape{whole[1] / matrix.fused, whole[0]}
                           : Shape{whole[0] / matrix.fused, whole[1]};
}

// Each of the fused matrices by itself: together they have other singular values.
void orthogonalise_each(Context& context, Tensor direction, const nn::ParameterSpec& matrix,
                        int64_t steps) {
  if (matrix.fused == 1) {
    orthogonalise(context, direction, steps);
    return;
  }
  const int64_t outputs = shape_OI(matrix)[0];
  for (int64_t i = 0; i < matrix.fused; ++i) {
    const Tensor part = matrix.transposed ? direction.columns(i * outputs, outputs)
                                          : direction.rows(i * outputs, outputs);
    const OwnedTensor alone = allocate(context.workspace, DType::kF32, part.shape);
    kernels::convert(context, alone, part);
    orthogonalise(context, alone, steps);
    kernels::convert(context, part, alone.view());
  }
}

}  // namespace

OptimizerKind Optimizer::kind_for(const nn::Parameter& parameter) const {
  const bool hidden = parameter.spec.role == nn::ParameterRole::kHiddenMatrix;
  return spec_.kind == OptimizerKind::kMuon && !hidden ? OptimizerKind::kAdamW : spec_.kind;
}

Optimizer::Optimizer(Context& context, Arena& memory, const OptimizerSpec& spec,
                     std::vector<OptimizedParameter> parameters)
    : spec_(spec), parameters_(std::move(parameters)) {
  for (const OptimizedParameter& options : parameters_) {
    const nn::Parameter& parameter = *options.parameter;
    CADRE_CHECK(!parameter.gradient.empty(), parameter.spec.name, " has no gradient to move it");
    const Shape shape = parameter.master.shape;
    Member& member = members_.emplace_back();
    member.kind = kind_for(parameter);
    if (member.kind != OptimizerKind::kSgd || spec_.momentum != 0.0) {
      member.first = cleared(context, memory, shape);
    }
    if (member.kind == OptimizerKind::kAdamW) {
      member.second = cleared(context, memory, shape);
    }
  }
  const auto count = static_cast<int64_t>(std::max<size_t>(1, parameters_.size()));
  squared_P_ = cleared(context, memory, {count});
  norm_1_ = cleared(context, memory, {1});
  scale_1_ = cleared(context, memory, {1});
}

void Optimizer::step(Context& context, ConstTensor count_1, const StepOptions& options) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    kernels::squared_sum(context, one_of(squared_P_, i), parameters_[i].parameter->gradient);
  }
  kernels::gradient_scale(context, scale_1_, norm_1_, squared_P_, count_1,
                          {.loss_scale = options.loss_scale, .max_norm = options.max_grad_norm});
  ++updates_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    update(context, parameters_[i], members_[i], options.learning_rate);
  }
}

void Optimizer::update(Context& context, const OptimizedParameter& options, Member& member,
                       double learning_rate) {
  const nn::Parameter& parameter = *options.parameter;
  const kernels::UpdateTensors tensors{
      .value = parameter.master, .copy = parameter.copy, .gradient = parameter.gradient};
  const auto rate = static_cast<float>(learning_rate * options.learning_rate_scale);
  switch (member.kind) {
    case OptimizerKind::kAdamW:
      kernels::adamw_update(context, tensors, member.first, member.second, scale_1_,
                            {.learning_rate = rate,
                             .beta1 = static_cast<float>(spec_.beta1),
                             .beta2 = static_cast<float>(spec_.beta2),
                             .epsilon = static_cast<float>(spec_.epsilon),
                             .weight_decay = options.weight_decay,
                             .step = updates_});
      return;
    case OptimizerKind::kSgd:
      kernels::sgd_update(context, tensors, member.first, scale_1_,
                          {.learning_rate = rate,
                           .momentum = static_cast<float>(spec_.momentum),
                           .nesterov = spec_.nesterov,
                           .weight_decay = options.weight_decay});
      return;
    case OptimizerKind::kLion:
      kernels::lion_update(context, tensors, member.first, scale_1_,
                           {.learning_rate = rate,
                            .beta1 = static_cast<float>(spec_.beta1),
                            .beta2 = static_cast<float>(spec_.beta2),
                            .weight_decay = options.weight_decay});
      return;
    case OptimizerKind::kMuon:
      muon_update(context, options, member,
                  rate * static_cast<float>(spec_.muon_learning_rate_scale));
      return;
  }
}

void Optimizer::muon_update(Context& context, const OptimizedParameter& options, Member& member,
                            float learning_rate) {
  const nn::Parameter& parameter = *options.parameter;
  const OwnedTensor direction = allocate(context.workspace, DType::kF32, parameter.master.shape);
  kernels::muon_momentum(context, direction, member.first, parameter.gradient, scale_1_,
                         static_cast<float>(spec_.muon_momentum), true);
  orthogonalise_each(context, direction, parameter.spec, spec_.muon_newton_schulz_steps);
  kernels::muon_apply(context, parameter.master, parameter.copy, direction, scale_1_, learning_rate,
                      muon_scale(shape_OI(parameter.spec)), options.weight_decay);
}

std::vector<StateTensor> Optimizer::state() {
  std::vector<StateTensor> list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const nn::Parameter* parameter = parameters_[i].parameter;
    const Member& member = members_[i];
    const bool adam = member.kind == OptimizerKind::kAdamW;
    if (!member.first.empty()) {
      list.push_back({(adam ? "exp_avg/" : "momentum/") + parameter->spec.name, parameter,
                      member.first.view()});
    }
    if (!member.second.empty()) {
      list.push_back({"exp_avg_sq/" + parameter->spec.name, parameter, member.second.view()});
    }
  }
  return list;
}

std::vector<OptimizedParameter> optimized_parameters(nn::ParameterStore& store,
                                                     const TrainingSpec& spec) {
  std::vector<OptimizedParameter> list;
  for (nn::Parameter& parameter : store.parameters()) {
    if (parameter.frozen) {
      continue;
    }
    const bool matrix = parameter.spec.whole.rank() >= 2;
    OptimizedParameter options{
        .parameter = &parameter,
        .weight_decay = matrix ? static_cast<float>(spec.optimizer.weight_decay) : 0.0f};
    const auto group =
        std::ranges::find_if(spec.parameter_groups, [&](const ParameterGroupSpec& candidate) {
          return std::ranges::any_of(candidate.parameters, [&](const std::string& pattern) {
            return matches_glob(pattern, parameter.spec.name);
          });
        });
    if (group != spec.parameter_groups.end()) {
      options.learning_rate_scale = static_cast<float>(group->learning_rate_scale.value_or(1.0));
      options.weight_decay =
          static_cast<float>(group->weight_decay.value_or(double{options.weight_decay}));
    }
    list.push_back(options);
  }
  return list;
}

}  // namespace cadre::optim
