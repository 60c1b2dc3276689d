#include "kernels/attention.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "kernels/attention_backend.h"
#include "kernels/backend.h"

namespace cadre::kernels {
namespace {

constexpr const AttentionBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kAttentionAvx512NativeBf16, &cpu::kAttentionAvx512F32, &cpu::kAttentionAvx512Bf16,
    &cpu::kAttentionAvx512F16,        &cpu::kAttentionAvx2F32,   &cpu::kAttentionAvx2Bf16,
    &cpu::kAttentionAvx2F16,
#endif
    &cpu::kAttentionSimdF32,          &cpu::kAttentionSimdBf16,
#if !defined(__x86_64__)
    &cpu::kAttentionSimdF16,
#endif
    &cpu::kAttentionPlainF32,         &cpu::kAttentionPlainBf16, &cpu::kAttentionPlainF16};

AttentionShape shape_of(std::string_view op, ConstTensor q_BQHD, ConstTensor k_BKGD) {
  CADRE_CHECK(q_BQHD.shape.rank() == 4 && k_BKGD.shape.rank() == 4, op, ": q ", q_BQHD.shape,
              ", k ", k_BKGD.shape);
  const AttentionShape shape{.B = q_BQHD.shape[0],
                             .Q = q_BQHD.shape[1],
                             .K = k_BKGD.shape[1],
                             .H = q_BQHD.shape[2],
                             .G = k_BKGD.shape[2],
                             .D = q_BQHD.shape[3],
                             .dtype = q_BQHD.dtype};
  CADRE_CHECK(0 < shape.Q && shape.Q <= shape.K, op, ": ", shape.Q, " queries, ", shape.K, " keys");
  CADRE_CHECK(shape.G > 0 && shape.H % shape.G == 0, op, ": ", shape.H, " heads over ", shape.G,
              " key/value heads");
  return shape;
}

void check_operand(std::string_view op, ConstTensor operand, const Shape& wanted, DType dtype) {
  CADRE_CHECK(operand.shape == wanted && operand.dtype == dtype, op, ": ", name_of(operand.dtype),
              " ", operand.shape, ", wanted ", name_of(dtype), " ", wanted);
  const int last = wanted.rank() - 1;
  CADRE_CHECK(wanted[last] == 1 || operand.strides[last] == 1, op, ": strides ", operand.strides,
              ", the last dimension must be packed");
}

// q, o and their gradients have `heads` H and `rows` Q; k, v and theirs G and K.
void check_head_operand(std::string_view op, const AttentionShape& shape, ConstTensor operand,
                        int64_t rows, int64_t heads) {
  check_operand(op, operand, {shape.B, rows, heads, shape.D}, shape.dtype);
}

void check_rest(std::string_view op, const AttentionShape& shape, ConstTensor lse_BHQ,
                ConstTensor start_BK, const AttentionOptions& options) {
  check_operand(op, lse_BHQ, {shape.B, shape.H, shape.Q}, DType::kF32);
  if (!start_BK.empty()) {
    check_operand(op, start_BK, {shape.B, shape.K}, DType::kI32);
  }
  CADRE_CHECK(options.window >= 0 && options.scale > 0.0f, op, ": window ", options.window,
              ", scale ", options.scale);
  const AttentionDropout& dropout = options.dropout;
  CADRE_CHECK(0.0f <= dropout.probability && dropout.probability < 1.0f, op, ": dropout of ",
              dropout.probability);
  if (dropout.probability > 0.0f) {
    CADRE_CHECK(dropout.first_row >= 0 && dropout.first_head >= 0 &&
                    dropout.first_head + shape.H <= dropout.heads,
                op, ": row ", dropout.first_row, ", ", shape.H, " heads from ", dropout.first_head,
                " of ", dropout.heads);
  }
}

// Pairs of a query and a key that it sees, in one sequence that is one document.
int64_t visible_pairs(const AttentionShape& shape, int64_t window) {
  const int64_t first_position = shape.K - shape.Q;
  const int64_t limit = window > 0 ? std::min(window, shape.K) : shape.K;
  // Positions below `limit` see all before them, the others `limit` keys.
  const int64_t growing = std::max<int64_t>(0, limit - first_position);
  const int64_t sum_of_growing = growing * (first_position + 1 + limit) / 2;
  return sum_of_growing + (shape.Q - growing) * limit;
}

int64_t flops(const AttentionShape& shape, const AttentionOptions& options, int64_t products) {
  const int64_t pairs = shape.B * shape.H * visible_pairs(shape, options.window);
  return products * 2 * shape.D * pairs;
}

}  // namespace

void attention_forward(Context& context, Tensor o_BQHD, Tensor lse_BHQ, ConstTensor q_BQHD,
                       ConstTensor k_BKGD, ConstTensor v_BKGD, ConstTensor start_BK,
                       const AttentionOptions& options) {
  constexpr std::string_view kName = "attention_forward";
  const AttentionShape shape = shape_of(kName, q_BQHD, k_BKGD);
  check_head_operand(kName, shape, o_BQHD, shape.Q, shape.H);
  check_head_operand(kName, shape, q_BQHD, shape.Q, shape.H);
  check_head_operand(kName, shape, k_BKGD, shape.K, shape.G);
  check_head_operand(kName, shape, v_BKGD, shape.K, shape.G);
  check_rest(kName, shape, lse_BHQ, start_BK, options);

  const AttentionBackend& backend = choose(kName, kBackends, context, shape.dtype);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_forward_bytes(shape, context.threads.threads()));
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kName,
                                  .flops = flops(shape, options, 2),
                                  .bytes_read = q_BQHD.bytes() + k_BKGD.bytes() + v_BKGD.bytes() +
                                                (start_BK.empty() ? 0 : start_BK.bytes()),
                                  .bytes_written = o_BQHD.bytes() + lse_BHQ.bytes()});
  if (!context.is_meta()) {
    backend.forward(context, {shape, o_BQHD, lse_BHQ, q_BQHD, k_BKGD, v_BKGD, start_BK, options},
                    workspace.data());
  }
}

void attention_backward(Context& context, Tensor dq_BQHD, Tensor dk_BKGD, Tensor dv_BKGD,
                        ConstTensor do_BQHD, ConstTensor o_BQHD, ConstTensor lse_BHQ,
                        ConstTensor q_BQHD, ConstTensor k_BKGD, ConstTensor v_BKGD,
                        ConstTensor start_BK, const AttentionOptions& options) {
  constexpr std::string_view kName = "attention_backward";
  const AttentionShape shape = shape_of(kName, q_BQHD, k_BKGD);
  CADRE_CHECK(shape.Q == shape.K, kName, ": ", shape.Q, " queries, ", shape.K, " keys");
  for (const ConstTensor& operand : {ConstTensor(dq_BQHD), do_BQHD, o_BQHD, q_BQHD}) {
    check_head_operand(kName, shape, operand, shape.Q, shape.H);
  }
  for (const ConstTensor& operand : {ConstTensor(dk_BKGD), ConstTensor(dv_BKGD), k_BKGD, v_BKGD}) {
    check_head_operand(kName, shape, operand, shape.K, shape.G);
  }
  check_rest(kName, shape, lse_BHQ, start_BK, options);

  const AttentionBackend& backend = choose(kName, kBackends, context, shape.dtype);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_backward_bytes(shape, context.threads.threads()));
  const Trace::Span span = context.trace.book(BookedOp{
      .name = kName,
      .flops = flops(shape, options, 5),
      .bytes_read = do_BQHD.bytes() + o_BQHD.bytes() + lse_BHQ.bytes() + q_BQHD.bytes() +
                    k_BKGD.bytes() + v_BKGD.bytes() + (start_BK.empty() ? 0 : start_BK.bytes()),
      .bytes_written = dq_BQHD.bytes() + dk_BKGD.bytes() + dv_BKGD.bytes()});
  if (!context.is_meta()) {
    backend.backward(context,
                     {shape, dq_BQHD, dk_BKGD, dv_BKGD, do_BQHD, o_BQHD, lse_BHQ, q_BQHD, k_BKGD,
                      v_BKGD, start_BK, options},
                     workspace.data());
  }
}

}  // namespace cadre::kernels
