#include "kernels/elementwise.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const ElementwiseBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kElementwiseAvx512, &cpu::kElementwiseAvx2,
#else
    &cpu::kElementwiseSimd,
#endif
    &cpu::kElementwisePlain};

}  // namespace

void convert(Context& context, Tensor y, ConstTensor x) {
  constexpr std::string_view kOp = "convert";
  CADRE_CHECK_EQ(y.shape, x.shape);
  check_rows_alike(kOp, x, {});
  check_rows_alike(kOp, y, {});
  const ElementwiseBackend& backend = choose(kOp, kBackends, context, x.dtype);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp, .flops = 0, .bytes_read = x.bytes(), .bytes_written = y.bytes()});
  if (!context.is_meta()) {
    backend.convert(context, y, x);
  }
}

void add(Context& context, Tensor y, ConstTensor a, ConstTensor b) {
  constexpr std::string_view kOp = "add";
  check_rows_alike(kOp, y, {a, b});
  const ElementwiseBackend& backend = choose(kOp, kBackends, context, y.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = y.shape.elements(),
                                                       .bytes_read = 2 * y.bytes(),
                                                       .bytes_written = y.bytes()});
  if (!context.is_meta()) {
    backend.add(context, y, a, b);
  }
}

void clear(Context& context, Tensor y) {
  constexpr std::string_view kOp = "clear";
  check_rows_alike(kOp, y, {});
  const ElementwiseBackend& backend = choose(kOp, kBackends, context, y.dtype);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp, .flops = 0, .bytes_read = 0, .bytes_written = y.bytes()});
  if (!context.is_meta()) {
    backend.clear(context, y);
  }
}

void column_sum_add(Context& context, Tensor sum_D, ConstTensor x_TD) {
  constexpr std::string_view kOp = "column_sum_add";
  check_rows_alike(kOp, x_TD, {});
  check_column_values(kOp, x_TD, sum_D);
  const ElementwiseBackend& backend = choose(kOp, kBackends, context, x_TD.dtype);
  const Arena::Block workspace = context.workspace.allocate(backend.plan_column_sum_bytes(x_TD));
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = x_TD.shape.elements(),
                                                       .bytes_read = x_TD.bytes() + sum_D.bytes(),
                                                       .bytes_written = sum_D.bytes()});
  if (!context.is_meta()) {
    backend.column_sum_add(context, sum_D, x_TD, workspace.data());
  }
}

void dropout(Context& context, Tensor y_TD, ConstTensor x_TD, const DropoutOptions& options) {
  constexpr std::string_view kOp = "dropout";
  CADRE_CHECK_EQ(x_TD.shape.rank(), 2);
  check_rows_alike(kOp, x_TD, {y_TD});
  CADRE_CHECK(0.0f <= options.probability && options.probability < 1.0f, kOp, ": probability ",
              options.probability, " must be in [0, 1)");
  CADRE_CHECK(options.first_row >= 0, kOp, ": first row ", options.first_row);
  const ElementwiseBackend& backend = choose(kOp, kBackends, context, x_TD.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = x_TD.shape.elements(),
                                                       .bytes_read = x_TD.bytes(),
                                                       .bytes_written = y_TD.bytes()});
  if (!context.is_meta()) {
    backend.dropout(context, y_TD, x_TD, options);
  }
}

}  // namespace cadre::kernels
