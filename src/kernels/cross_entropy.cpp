#include "kernels/cross_entropy.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const CrossEntropyBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kCrossEntropyAvx512, &cpu::kCrossEntropyAvx2,
#else
    &cpu::kCrossEntropySimd,
#endif
    &cpu::kCrossEntropyPlain};

// An exponential counts as one flop.
constexpr int64_t kStatisticsFlops = 4;
constexpr int64_t kBackwardFlops = 4;

void check_logits(std::string_view op, ConstTensor logits_TV, ConstTensor target_T) {
  CADRE_CHECK(logits_TV.shape.rank() == 2 && logits_TV.dtype == DType::kF32, op, ": logits are ",
              name_of(logits_TV.dtype), " of shape ", logits_TV.shape, ", must be f32 [T, V]");
  check_packed_rows(op, logits_TV);
  CADRE_CHECK(target_T.dtype == DType::kI32 && target_T.packed(), op, ": targets are ",
              name_of(target_T.dtype), " with strides ", target_T.strides, ", must be packed i32");
  CADRE_CHECK_EQ(target_T.shape, Shape{logits_TV.shape[0]});
}

}  // namespace

void cross_entropy_statistics(Context& context, Tensor max_T, Tensor sum_T, Tensor target_logit_T,
                              ConstTensor logits_TV, ConstTensor target_T,
                              const CrossEntropyOptions& options) {
  constexpr std::string_view kOp = "cross_entropy_statistics";
  check_logits(kOp, logits_TV, target_T);
  for (const Tensor& statistic : {max_T, sum_T, target_logit_T}) {
    check_packed_f32(kOp, statistic, target_T.shape);
  }
  const CrossEntropyBackend& backend = choose(kOp, kBackends, context, logits_TV.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = kStatisticsFlops * logits_TV.shape.elements(),
                                  .bytes_read = logits_TV.bytes() + target_T.bytes(),
                                  .bytes_written = 3 * max_T.bytes()});
  if (!context.is_meta()) {
    backend.statistics(context, max_T, sum_T, target_logit_T, logits_TV, target_T, options);
  }
}

void cross_entropy_loss(Context& context, Tensor loss_1, Tensor z_1, Tensor count_1, Tensor lse_T,
                        ConstTensor max_T, ConstTensor sum_T, ConstTensor target_logit_T,
                        ConstTensor target_T) {
  constexpr std::string_view kOp = "cross_entropy_loss";
  for (const Tensor& total : {loss_1, z_1, count_1}) {
    check_packed_f32(kOp, total, Shape{1});
  }
  CADRE_CHECK(target_T.dtype == DType::kI32 && target_T.packed(), kOp, ": targets must be packed");
  for (const ConstTensor& statistic : {ConstTensor(lse_T), max_T, sum_T, target_logit_T}) {
    check_packed_f32(kOp, statistic, target_T.shape);
  }
  const CrossEntropyBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = 6 * target_T.shape.elements(),
                                  .bytes_read = 3 * max_T.bytes() + target_T.bytes(),
                                  .bytes_written = lse_T.bytes()});
  if (!context.is_meta()) {
    backend.loss(context, loss_1, z_1, count_1, lse_T, max_T, sum_T, target_logit_T, target_T);
  }
}

void cross_entropy_backward(Context& context, Tensor dlogits_TV, ConstTensor logits_TV,
                            ConstTensor lse_T, ConstTensor target_T,
                            const CrossEntropyOptions& options) {
  constexpr std::string_view kOp = "cross_entropy_backward";
  check_logits(kOp, logits_TV, target_T);
  check_packed_f32(kOp, lse_T, target_T.shape);
  CADRE_CHECK_EQ(dlogits_TV.shape, logits_TV.shape);
  check_packed_rows(kOp, dlogits_TV);
  const CrossEntropyBackend& backend = choose(kOp, kBackends, context, dlogits_TV.dtype);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp,
               .flops = kBackwardFlops * logits_TV.shape.elements(),
               .bytes_read = logits_TV.bytes() + lse_T.bytes() + target_T.bytes(),
               .bytes_written = dlogits_TV.bytes()});
  if (!context.is_meta()) {
    backend.backward(context, dlogits_TV, logits_TV, lse_T, target_T, options);
  }
}

}  // namespace cadre::kernels
