#include "kernels/grouped_matmul.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

// Matrix e of a stack.
template <typename Byte>
BasicTensor<Byte> matrix_of(const BasicTensor<Byte>& stack, int64_t e) {
  return {stack.data + e * stack.strides[0] * bytes_of(stack.dtype),
          stack.dtype,
          {stack.shape[1], stack.shape[2]},
          {stack.strides[1], stack.strides[2]}};
}

void check_groups(std::string_view op, ConstTensor stack, ConstTensor offset_E1) {
  CADRE_CHECK(stack.shape.rank() == 3, op, ": matrices of shape ", stack.shape,
              ", must be [groups, rows, columns]");
  CADRE_CHECK(offset_E1.dtype == DType::kI32 && offset_E1.packed() &&
                  offset_E1.shape == Shape{stack.shape[0] + 1},
              op, ": offsets are ", name_of(offset_E1.dtype), " of shape ", offset_E1.shape,
              " for ", stack.shape[0], " groups");
}

void check_rows(std::string_view op, ConstTensor rows) {
  CADRE_CHECK(rows.shape.rank() == 2, op, ": rows of shape ", rows.shape);
  check_packed_rows(op, rows);
}

}  // namespace

void grouped_matmul(Context& context, Tensor c_RN, ConstTensor a_RK, ConstTensor b_EKN,
                    ConstTensor offset_E1) {
  constexpr std::string_view kOp = "grouped_matmul";
  check_groups(kOp, b_EKN, offset_E1);
  check_rows(kOp, c_RN);
  check_rows(kOp, a_RK);
  CADRE_CHECK_EQ(c_RN.shape, (Shape{a_RK.shape[0], b_EKN.shape[2]}));
  CADRE_CHECK_EQ(a_RK.shape[1], b_EKN.shape[1]);
  // One group may have all the rows.
  const MatmulTask largest{.c_MN = c_RN, .a_MK = a_RK, .b_KN = matrix_of(b_EKN, 0), .bias_N = {}};
  const MatmulBackend& backend = checked_matmul_backend(kOp, context, largest);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_any_rows_bytes(largest, context.threads.threads()));
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = 2 * c_RN.shape.elements() * a_RK.shape[1],
                                  .bytes_read = a_RK.bytes() + b_EKN.bytes() + offset_E1.bytes(),
                                  .bytes_written = c_RN.bytes()});
  if (!context.is_meta()) {
    cpu::grouped_matmul(context, {c_RN, a_RK, b_EKN, offset_E1}, backend, workspace.data());
  }
}

void grouped_matmul_add(Context& context, Tensor c_EMN, ConstTensor a_RM, ConstTensor b_RN,
                        ConstTensor offset_E1) {
  constexpr std::string_view kOp = "grouped_matmul_add";
  check_groups(kOp, c_EMN, offset_E1);
  check_rows(kOp, a_RM);
  check_rows(kOp, b_RN);
  CADRE_CHECK_EQ(a_RM.shape[0], b_RN.shape[0]);
  CADRE_CHECK_EQ(c_EMN.shape, (Shape{c_EMN.shape[0], a_RM.shape[1], b_RN.shape[1]}));
  CADRE_CHECK(c_EMN.dtype == DType::kF32, kOp, ": sums are ", name_of(c_EMN.dtype),
              ", must be f32");
  const MatmulTask largest{.c_MN = matrix_of(c_EMN, 0),
                           .a_MK = a_RM.transposed(),
                           .b_KN = b_RN,
                           .bias_N = {},
                           .store = Store::kAdd};
  const MatmulBackend& backend = checked_matmul_backend(kOp, context, largest);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_any_depth_bytes(largest, context.threads.threads()));
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp,
               .flops = 2 * a_RM.shape.elements() * b_RN.shape[1],
               .bytes_read = a_RM.bytes() + b_RN.bytes() + c_EMN.bytes() + offset_E1.bytes(),
               .bytes_written = c_EMN.bytes()});
  if (!context.is_meta()) {
    cpu::grouped_matmul_add(context, {c_EMN, a_RM, b_RN, offset_E1}, backend, workspace.data());
  }
}

// ---- on a CPU, where offsets are read where they lie

namespace {

// Calls body(e, first row, rows) for every group that has rows; returns where the last one ends.
template <typename Body>
int64_t for_each_group(ConstTensor offset_E1, int64_t rows, const Body& body) {
  const std::span<const int32_t> offset = offset_E1.flat<int32_t>();
  for (size_t e = 0; e + 1 < offset.size(); ++e) {
    CADRE_CHECK(0 <= offset[e] && offset[e] <= offset[e + 1] && offset[e + 1] <= rows, "group ", e,
                " has rows from ", offset[e], " to ", offset[e + 1], " of ", rows);
    if (offset[e] < offset[e + 1]) {
      body(static_cast<int64_t>(e), int64_t{offset[e]}, int64_t{offset[e + 1]} - offset[e]);
    }
  }
  return offset.back();
}

}  // namespace

void cpu::grouped_matmul(Context& context, const GroupedMatmulTask& task,
                         const MatmulBackend& matmul, std::byte* workspace) {
  const int64_t rows = task.a.shape[0];
  const auto multiply = [&](int64_t e, int64_t first, int64_t count) {
    matmul.run(context,
               {.c_MN = task.c.rows(first, count),
                .a_MK = task.a.rows(first, count),
                .b_KN = matrix_of(task.b, e),
                .bias_N = {}},
               workspace);
  };
  for (int64_t r = for_each_group(task.offset_E1, rows, multiply); r < rows; ++r) {
    const Tensor row = task.c.rows(r, 1);
    std::fill_n(row.data, row.bytes(), std::byte{0});
  }
}

void cpu::grouped_matmul_add(Context& context, const GroupedMatmulTask& task,
                             const MatmulBackend& matmul, std::byte* workspace) {
  for_each_group(task.offset_E1, task.a.shape[0], [&](int64_t e, int64_t first, int64_t count) {
    matmul.run(context,
               {.c_MN = matrix_of(task.c, e),
                .a_MK = task.a.rows(first, count).transposed(),
                .b_KN = task.b.rows(first, count),
                .bias_N = {},
                .store = Store::kAdd},
               workspace);
  });
}

}  // namespace cadre::kernels
