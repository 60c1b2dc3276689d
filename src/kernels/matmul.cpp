#include "kernels/matmul.h"

#include <string_view>

#include "base/check.h"
#include "kernels/backend.h"

namespace cadre::kernels {
namespace {

constexpr const MatmulBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kMatmulAmxBf16, &cpu::kMatmulAvx512Bf16, &cpu::kMatmulAvx512, &cpu::kMatmulAvx2,
#endif
    &cpu::kMatmulSimd,    &cpu::kMatmulPlain};

void check_operand(std::string_view op, ConstTensor operand) {
  CADRE_CHECK(operand.strides[0] == 1 || operand.strides[1] == 1, op, ": an operand has strides ",
              operand.strides, ", one of them must be 1");
}

void check_shapes(std::string_view op, const MatmulTask& task) {
  const auto& [c_MN, a_MK, b_KN, bias_N, store] = task;
  CADRE_CHECK_EQ(c_MN.shape, (Shape{a_MK.shape[0], b_KN.shape[1]}));
  CADRE_CHECK_EQ(a_MK.shape[1], b_KN.shape[0]);
  CADRE_CHECK(c_MN.strides[1] == 1, op, ": the product has strides ", c_MN.strides,
              ", its columns must be adjacent");
  CADRE_CHECK(a_MK.dtype == b_KN.dtype && (c_MN.dtype == DType::kF32 || c_MN.dtype == a_MK.dtype),
              op, ": ", name_of(a_MK.dtype), " times ", name_of(b_KN.dtype), " into ",
              name_of(c_MN.dtype));
  check_operand(op, a_MK);
  check_operand(op, b_KN);
  if (!bias_N.empty()) {
    CADRE_CHECK_EQ(bias_N.shape, Shape{c_MN.shape[1]});
    CADRE_CHECK(bias_N.packed() && (bias_N.dtype == DType::kF32 || bias_N.dtype == a_MK.dtype), op,
                ": the bias is ", name_of(bias_N.dtype), " with strides ", bias_N.strides);
  }
}

BookedOp cost(std::string_view op, const MatmulTask& task) {
  const auto& [c_MN, a_MK, b_KN, bias_N, store] = task;
  const int64_t old_c_bytes = store == Store::kAdd ? c_MN.bytes() : 0;
  const int64_t bias_bytes = bias_N.empty() ? 0 : bias_N.bytes();
  return {.name = op,
          .flops = 2 * c_MN.shape.elements() * a_MK.shape[1],
          .bytes_read = a_MK.bytes() + b_KN.bytes() + old_c_bytes + bias_bytes,
          .bytes_written = c_MN.bytes()};
}

void run(std::string_view op, Context& context, const MatmulTask& task) {
  const MatmulBackend& backend = checked_matmul_backend(op, context, task);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_workspace_bytes(task, context.threads.threads()));
  const Trace::Span span = context.trace.book(cost(op, task));
  if (!context.is_meta()) {
    backend.run(context, task, workspace.data());
  }
}

}  // namespace

const MatmulBackend& checked_matmul_backend(std::string_view op, const Context& context,
                                            const MatmulTask& task) {
  check_shapes(op, task);
  return choose(op, kBackends, context, task.a_MK.dtype);
}

void matmul(Context& context, Tensor c_MN, ConstTensor a_MK, ConstTensor b_KN,
            const MatmulOptions& options) {
  run("matmul", context, {c_MN, a_MK, b_KN, options.bias_N, Store::kOverwrite});
}

void matmul_add(Context& context, Tensor c_MN, ConstTensor a_MK, ConstTensor b_KN) {
  run("matmul_add", context, {c_MN, a_MK, b_KN, {}, Store::kAdd});
}

}  // namespace cadre::kernels
