#include "kernels/expert_rows.h"

#include <string_view>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const ExpertRowsBackend* kBackends[] = {&cpu::kExpertRowsPlain};

void check_indices(std::string_view op, ConstTensor indices, int rank) {
  CADRE_CHECK(indices.dtype == DType::kI32 && indices.packed() && indices.shape.rank() == rank, op,
              ": indices are ", name_of(indices.dtype), " of shape ", indices.shape);
}

// `rows` are those of experts, `tokens` those of tokens; both of one width.
void check_pair(std::string_view op, ConstTensor rows, ConstTensor tokens) {
  CADRE_CHECK(rows.shape.rank() == 2 && tokens.shape.rank() == 2 && rows.dtype == tokens.dtype, op,
              ": ", name_of(rows.dtype), " of shape ", rows.shape, " and ", name_of(tokens.dtype),
              " of shape ", tokens.shape);
  CADRE_CHECK_EQ(rows.shape[1], tokens.shape[1]);
  check_packed_rows(op, rows);
  check_packed_rows(op, tokens);
}

void check_weights(std::string_view op, ConstTensor x_RF, ConstTensor weight_TK,
                   ConstTensor row_TK) {
  check_indices(op, row_TK, 2);
  check_packed_f32(op, weight_TK, row_TK.shape);
  CADRE_CHECK_EQ(x_RF.shape.rank(), 2);
}

}  // namespace

void expert_rows(Context& context, const ExpertRows& rows, ConstTensor expert_TK,
                 const ExpertRowsOptions& options) {
  constexpr std::string_view kOp = "expert_rows";
  check_indices(kOp, expert_TK, 2);
  check_indices(kOp, rows.slot_R, 1);
  check_indices(kOp, rows.row_TK, 2);
  check_indices(kOp, rows.offset_E1, 1);
  CADRE_CHECK_EQ(rows.row_TK.shape, expert_TK.shape);
  CADRE_CHECK(options.sequences > 0 && expert_TK.shape[0] % options.sequences == 0, kOp, ": ",
              expert_TK.shape[0], " tokens of ", options.sequences, " sequences");
  CADRE_CHECK(options.capacity > 0 || rows.slot_R.shape[0] == expert_TK.shape.elements(), kOp, ": ",
              rows.slot_R.shape[0], " rows for ", expert_TK.shape.elements(), " slots");
  const ExpertRowsBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(BookedOp{
      .name = kOp,
      .flops = 0,
      .bytes_read = 2 * expert_TK.bytes(),
      .bytes_written = rows.slot_R.bytes() + rows.row_TK.bytes() + rows.offset_E1.bytes()});
  if (!context.is_meta()) {
    backend.expert_rows(context, rows, expert_TK, options);
  }
}

void gather_rows(Context& context, Tensor y_RD, ConstTensor x_TD, ConstTensor slot_R,
                 int64_t slots_per_token) {
  constexpr std::string_view kOp = "gather_rows";
  check_pair(kOp, y_RD, x_TD);
  check_indices(kOp, slot_R, 1);
  CADRE_CHECK_EQ(slot_R.shape, Shape{y_RD.shape[0]});
  const ExpertRowsBackend& backend = choose(kOp, kBackends, context, x_TD.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = 0,
                                                       .bytes_read = y_RD.bytes() + slot_R.bytes(),
                                                       .bytes_written = y_RD.bytes()});
  if (!context.is_meta()) {
    backend.gather_rows(context, y_RD, x_TD, slot_R, slots_per_token);
  }
}

void sum_rows(Context& context, Tensor x_TD, ConstTensor y_RD, ConstTensor row_TK) {
  constexpr std::string_view kOp = "sum_rows";
  check_pair(kOp, y_RD, x_TD);
  check_indices(kOp, row_TK, 2);
  CADRE_CHECK_EQ(row_TK.shape[0], x_TD.shape[0]);
  const ExpertRowsBackend& backend = choose(kOp, kBackends, context, x_TD.dtype);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = y_RD.shape.elements(),
                                                       .bytes_read = y_RD.bytes() + row_TK.bytes(),
                                                       .bytes_written = x_TD.bytes()});
  if (!context.is_meta()) {
    backend.sum_rows(context, x_TD, y_RD, row_TK);
  }
}

void weigh_rows(Context& context, Tensor y_RF, ConstTensor x_RF, ConstTensor weight_TK,
                ConstTensor row_TK) {
  constexpr std::string_view kOp = "weigh_rows";
  check_rows_alike(kOp, y_RF, {x_RF});
  check_weights(kOp, x_RF, weight_TK, row_TK);
  const ExpertRowsBackend& backend = choose(kOp, kBackends, context, x_RF.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = x_RF.shape.elements(),
                                  .bytes_read = x_RF.bytes() + weight_TK.bytes() + row_TK.bytes(),
                                  .bytes_written = y_RF.bytes()});
  if (!context.is_meta()) {
    backend.weigh_rows(context, y_RF, x_RF, weight_TK, row_TK);
  }
}

void weigh_rows_backward(Context& context, Tensor dx_RF, Tensor dweight_TK, ConstTensor dy_RF,
                         ConstTensor x_RF, ConstTensor weight_TK, ConstTensor row_TK) {
  constexpr std::string_view kOp = "weigh_rows_backward";
  check_rows_alike(kOp, dx_RF, {dy_RF, x_RF});
  check_weights(kOp, x_RF, weight_TK, row_TK);
  check_packed_f32(kOp, dweight_TK, row_TK.shape);
  const ExpertRowsBackend& backend = choose(kOp, kBackends, context, x_RF.dtype);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp,
               .flops = 3 * x_RF.shape.elements(),
               .bytes_read = 2 * x_RF.bytes() + weight_TK.bytes() + row_TK.bytes(),
               .bytes_written = dx_RF.bytes() + dweight_TK.bytes()});
  if (!context.is_meta()) {
    backend.weigh_rows_backward(context, dx_RF, dweight_TK, dy_RF, x_RF, weight_TK, row_TK);
  }
}

}  // namespace cadre::kernels
