#include "kernels/activation.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const ActivationBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kActivationAvx512, &cpu::kActivationAvx2,
#else
    &cpu::kActivationSimd,
#endif
    &cpu::kActivationPlain};

// An exponential and a division count as one flop each.
constexpr int64_t kSwigluForwardFlops = 5;
constexpr int64_t kSwigluBackwardFlops = 11;
constexpr int64_t kGeluForwardFlops = 9;
constexpr int64_t kGeluBackwardFlops = 16;

void check_gate_up(std::string_view op, ConstTensor y_TF, ConstTensor gate_up_T2F) {
  CADRE_CHECK(y_TF.shape.rank() == 2 && y_TF.dtype == gate_up_T2F.dtype, op, ": ",
              name_of(y_TF.dtype), " of shape ", y_TF.shape, " beside ",
              name_of(gate_up_T2F.dtype));
  CADRE_CHECK_EQ(gate_up_T2F.shape, (Shape{y_TF.shape[0], 2 * y_TF.shape[1]}));
  check_rows_alike(op, y_TF, {});
  check_packed_rows(op, gate_up_T2F);
}

}  // namespace

void swiglu_forward(Context& context, Tensor y_TF, ConstTensor gate_up_T2F) {
  constexpr std::string_view kOp = "swiglu_forward";
  check_gate_up(kOp, y_TF, gate_up_T2F);
  const ActivationBackend& backend = choose(kOp, kBackends, context, y_TF.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = kSwigluForwardFlops * y_TF.shape.elements(),
                                  .bytes_read = gate_up_T2F.bytes(),
                                  .bytes_written = y_TF.bytes()});
  if (!context.is_meta()) {
    backend.swiglu_forward(context, y_TF, gate_up_T2F);
  }
}

void swiglu_backward(Context& context, Tensor dgate_up_T2F, ConstTensor dy_TF,
                     ConstTensor gate_up_T2F) {
  constexpr std::string_view kOp = "swiglu_backward";
  check_gate_up(kOp, dy_TF, gate_up_T2F);
  check_rows_alike(kOp, gate_up_T2F, {dgate_up_T2F});
  const ActivationBackend& backend = choose(kOp, kBackends, context, dy_TF.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = kSwigluBackwardFlops * dy_TF.shape.elements(),
                                  .bytes_read = dy_TF.bytes() + gate_up_T2F.bytes(),
                                  .bytes_written = dgate_up_T2F.bytes()});
  if (!context.is_meta()) {
    backend.swiglu_backward(context, dgate_up_T2F, dy_TF, gate_up_T2F);
  }
}

void gelu_forward(Context& context, Tensor y_TF, ConstTensor x_TF) {
  constexpr std::string_view kOp = "gelu_forward";
  check_rows_alike(kOp, x_TF, {y_TF});
  const ActivationBackend& backend = choose(kOp, kBackends, context, x_TF.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = kGeluForwardFlops * x_TF.shape.elements(),
                                  .bytes_read = x_TF.bytes(),
                                  .bytes_written = y_TF.bytes()});
  if (!context.is_meta()) {
    backend.gelu_forward(context, y_TF, x_TF);
  }
}

void gelu_backward(Context& context, Tensor dx_TF, ConstTensor dy_TF, ConstTensor x_TF) {
  constexpr std::string_view kOp = "gelu_backward";
  check_rows_alike(kOp, x_TF, {dx_TF, dy_TF});
  const ActivationBackend& backend = choose(kOp, kBackends, context, x_TF.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = kGeluBackwardFlops * x_TF.shape.elements(),
                                  .bytes_read = dy_TF.bytes() + x_TF.bytes(),
                                  .bytes_written = dx_TF.bytes()});
  if (!context.is_meta()) {
    backend.gelu_backward(context, dx_TF, dy_TF, x_TF);
  }
}

}  // namespace cadre::kernels
