#include "kernels/optimizer.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const OptimizerBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kOptimizerAvx512, &cpu::kOptimizerAvx2,
#else
    &cpu::kOptimizerSimd,
#endif
    &cpu::kOptimizerPlain};

// Value and gradient, the low-precision copy where there is one, and the moments.
void check_update(std::string_view op, const UpdateTensors& parameter,
                  std::initializer_list<ConstTensor> moments, ConstTensor scale_1) {
  const auto& [value, copy, gradient] = parameter;
  check_packed_f32(op, value, value.shape);
  check_packed_f32(op, gradient, value.shape);
  for (const ConstTensor& moment : moments) {
    check_packed_f32(op, moment, value.shape);
  }
  check_packed_f32(op, scale_1, Shape{1});
  if (!copy.empty()) {
    CADRE_CHECK(copy.shape == value.shape && copy.packed() &&
                    (copy.dtype == DType::kBf16 || copy.dtype == DType::kF16),
                op, ": the copy is ", name_of(copy.dtype), " of shape ", copy.shape,
                "; wanted packed bf16 or f16 of shape ", value.shape);
  }
}

// Reads value, gradient and moments, writes them and the copy.
BookedOp update_cost(std::string_view op, const UpdateTensors& parameter, int64_t moments,
                     int64_t flops_per_element) {
  const int64_t bytes = parameter.value.bytes();
  const int64_t copy_bytes = parameter.copy.empty() ? 0 : parameter.copy.bytes();
  return {.name = op,
          .flops = flops_per_element * parameter.value.shape.elements(),
          .bytes_read = (2 + moments) * bytes,
          .bytes_written = (2 + moments) * bytes + copy_bytes};
}

}  // namespace

void adamw_update(Context& context, const UpdateTensors& parameter, Tensor m, Tensor v,
                  ConstTensor scale_1, const AdamWOptions& options) {
  constexpr std::string_view kOp = "adamw_update";
  check_update(kOp, parameter, {m, v}, scale_1);
  CADRE_CHECK(options.step >= 1, kOp, ": step ", options.step, ", they count from 1");
  const OptimizerBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(update_cost(kOp, parameter, 2, 15));
  if (!context.is_meta()) {
    backend.adamw_update(context, parameter, m, v, scale_1, options);
  }
}

void sgd_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                const SgdOptions& options) {
  constexpr std::string_view kOp = "sgd_update";
  CADRE_CHECK(m.empty() == (options.momentum == 0.0f), kOp, ": momentum ", options.momentum,
              m.empty() ? " without" : " with", " a tensor for it");
  check_update(kOp, parameter, {m.empty() ? parameter.value : m}, scale_1);
  const OptimizerBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span =
      context.trace.book(update_cost(kOp, parameter, m.empty() ? 0 : 1, m.empty() ? 5 : 9));
  if (!context.is_meta()) {
    backend.sgd_update(context, parameter, m, scale_1, options);
  }
}

void lion_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                 const LionOptions& options) {
  constexpr std::string_view kOp = "lion_update";
  check_update(kOp, parameter, {m}, scale_1);
  const OptimizerBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(update_cost(kOp, parameter, 1, 11));
  if (!context.is_meta()) {
    backend.lion_update(context, parameter, m, scale_1, options);
  }
}

void muon_momentum(Context& context, Tensor update, Tensor m, Tensor gradient, ConstTensor scale_1,
                   float momentum, bool nesterov) {
  constexpr std::string_view kOp = "muon_momentum";
  for (const Tensor& tensor : {update, m}) {
    check_packed_f32(kOp, tensor, gradient.shape);
  }
  check_packed_f32(kOp, gradient, gradient.shape);
  check_packed_f32(kOp, scale_1, Shape{1});
  const OptimizerBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = 5 * m.shape.elements(),
                                                       .bytes_read = 2 * m.bytes(),
                                                       .bytes_written = 3 * m.bytes()});
  if (!context.is_meta()) {
    backend.muon_momentum(context, update, m, gradient, scale_1, momentum, nesterov);
  }
}

void muon_apply(Context& context, Tensor value, Tensor copy, ConstTensor update,
                ConstTensor scale_1, float learning_rate, float update_scale, float weight_decay) {
  constexpr std::string_view kOp = "muon_apply";
  check_update(kOp, {.value = value, .copy = copy, .gradient = value}, {update}, scale_1);
  const OptimizerBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const int64_t copy_bytes = copy.empty() ? 0 : copy.bytes();
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = 5 * value.shape.elements(),
                                  .bytes_read = value.bytes() + update.bytes(),
                                  .bytes_written = value.bytes() + copy_bytes});
  if (!context.is_meta()) {
    backend.muon_apply(context, value, copy, update, scale_1, learning_rate, update_scale,
                       weight_decay);
  }
}

void squared_sum(Context& context, Tensor sum_1, ConstTensor x) {
  constexpr std::string_view kOp = "squared_sum";
  check_packed_f32(kOp, sum_1, Shape{1});
  check_rows_alike(kOp, x, {});
  const OptimizerBackend& backend = choose(kOp, kBackends, context, x.dtype);
  const Arena::Block workspace = context.workspace.allocate(backend.plan_squared_sum_bytes(x));
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = 2 * x.shape.elements(),
                                                       .bytes_read = x.bytes(),
                                                       .bytes_written = sum_1.bytes()});
  if (!context.is_meta()) {
    backend.squared_sum(context, sum_1, x, workspace.data());
  }
}

void gradient_scale(Context& context, Tensor scale_1, Tensor norm_1, ConstTensor squared_P,
                    ConstTensor count_1, const GradientScaleOptions& options) {
  constexpr std::string_view kOp = "gradient_scale";
  for (const ConstTensor& number : {ConstTensor(scale_1), ConstTensor(norm_1), count_1}) {
    check_packed_f32(kOp, number, Shape{1});
  }
  check_packed_f32(kOp, squared_P, Shape{squared_P.shape[0]});
  CADRE_CHECK(options.loss_scale > 0.0f && options.max_norm >= 0.0f, kOp, ": loss scale ",
              options.loss_scale, ", largest norm ", options.max_norm);
  CADRE_CHECK(is_cpu(context.device.target), kOp, " has no backend for ",
              name_of(context.device.target));
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = squared_P.shape[0],
                                                       .bytes_read = squared_P.bytes() + 4,
                                                       .bytes_written = 8});
  if (!context.is_meta()) {
    cpu::gradient_scale(context, scale_1, norm_1, squared_P, count_1, options);
  }
}

}  // namespace cadre::kernels
