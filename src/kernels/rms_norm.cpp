#include "kernels/rms_norm.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const RmsNormBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kRmsNormAvx512, &cpu::kRmsNormAvx2,
#else
    &cpu::kRmsNormSimd,
#endif
    &cpu::kRmsNormPlain};

// The flops booked are those of the elements; the few per row are left out.

void forward(std::string_view op, Context& context, const RmsNormForwardTask& task) {
  const bool adds = !task.sum_TD.empty();
  check_rows_alike(op, task.x_TD, {task.y_TD, task.sum_TD, task.branch_TD});
  check_row_values(op, task.x_TD, task.rstd_T);
  check_column_values(op, task.x_TD, task.weight_D);
  const RmsNormBackend& backend = choose(op, kBackends, context, task.x_TD.dtype);
  const int64_t activation_bytes = task.x_TD.bytes();
  const Trace::Span span = context.trace.book(
      BookedOp{.name = op,
               .flops = (adds ? 5 : 4) * task.x_TD.shape.elements(),
               .bytes_read = (adds ? 2 : 1) * activation_bytes + task.weight_D.bytes(),
               .bytes_written = (adds ? 2 : 1) * activation_bytes + task.rstd_T.bytes()});
  if (!context.is_meta()) {
    backend.forward(context, task);
  }
}

}  // namespace

void rms_norm_forward(Context& context, Tensor y_TD, Tensor rstd_T, ConstTensor x_TD,
                      ConstTensor weight_D, const NormOptions& options) {
  forward("rms_norm_forward", context,
          {.sum_TD = {},
           .y_TD = y_TD,
           .rstd_T = rstd_T,
           .x_TD = x_TD,
           .branch_TD = {},
           .weight_D = weight_D,
           .epsilon = options.epsilon});
}

void add_rms_norm_forward(Context& context, Tensor sum_TD, Tensor y_TD, Tensor rstd_T,
                          ConstTensor x_TD, ConstTensor branch_TD, ConstTensor weight_D,
                          const NormOptions& options) {
  CADRE_CHECK(!sum_TD.empty() && !branch_TD.empty(), "add_rms_norm_forward: nothing to add");
  forward("add_rms_norm_forward", context,
          {.sum_TD = sum_TD,
           .y_TD = y_TD,
           .rstd_T = rstd_T,
           .x_TD = x_TD,
           .branch_TD = branch_TD,
           .weight_D = weight_D,
           .epsilon = options.epsilon});
}

void rms_norm_backward(Context& context, Tensor dx_TD, Tensor dweight_D, ConstTensor dy_TD,
                       ConstTensor x_TD, ConstTensor weight_D, ConstTensor rstd_T,
                       ConstTensor dresidual_TD) {
  constexpr std::string_view kOp = "rms_norm_backward";
  check_rows_alike(kOp, x_TD, {dx_TD, dy_TD, dresidual_TD});
  check_row_values(kOp, x_TD, rstd_T);
  check_column_values(kOp, x_TD, weight_D);
  const RmsNormBackwardTask task{.dx_TD = dx_TD,
                                 .dweight_D = dweight_D,
                                 .dy_TD = dy_TD,
                                 .x_TD = x_TD,
                                 .weight_D = weight_D,
                                 .rstd_T = rstd_T,
                                 .dresidual_TD = dresidual_TD};
  int64_t flops_per_element = dresidual_TD.empty() ? 6 : 7;
  int64_t dweight_bytes = 0;
  if (!dweight_D.empty()) {
    check_column_values(kOp, x_TD, dweight_D);
    flops_per_element += 3;
    dweight_bytes = dweight_D.bytes();
  }
  const RmsNormBackend& backend = choose(kOp, kBackends, context, x_TD.dtype);
  const Arena::Block workspace = context.workspace.allocate(backend.plan_backward_bytes(task));
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = flops_per_element * x_TD.shape.elements(),
                                  .bytes_read = (dresidual_TD.empty() ? 2 : 3) * x_TD.bytes() +
                                                weight_D.bytes() + rstd_T.bytes() + dweight_bytes,
                                  .bytes_written = dx_TD.bytes() + dweight_bytes});
  if (!context.is_meta()) {
    backend.backward(context, task, workspace.data());
  }
}

}  // namespace cadre::kernels
