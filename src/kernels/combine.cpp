#include "kernels/combine.h"

#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const CombineBackend* kBackends[] = {&cpu::kCombinePlain};

}  // namespace

void combine(Context& context, Tensor y, ConstTensor x, float alpha, float beta) {
  constexpr std::string_view kOp = "combine";
  check_packed_f32(kOp, x, y.shape);
  check_packed_f32(kOp, y, y.shape);
  const CombineBackend& backend = choose(kOp, kBackends, context, y.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = 3 * y.shape.elements(),
                                                       .bytes_read = x.bytes() + y.bytes(),
                                                       .bytes_written = y.bytes()});
  if (!context.is_meta()) {
    backend.combine(context, y, x, alpha, beta);
  }
}

void scale_to_unit_norm(Context& context, Tensor y, ConstTensor x, ConstTensor squared_1) {
  constexpr std::string_view kOp = "scale_to_unit_norm";
  check_packed_f32(kOp, x, y.shape);
  check_packed_f32(kOp, y, y.shape);
  check_packed_f32(kOp, squared_1, Shape{1});
  const CombineBackend& backend = choose(kOp, kBackends, context, y.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = y.shape.elements(),
                                                       .bytes_read = x.bytes(),
                                                       .bytes_written = y.bytes()});
  if (!context.is_meta()) {
    backend.scale_to_unit_norm(context, y, x, squared_1);
  }
}

}  // namespace cadre::kernels
