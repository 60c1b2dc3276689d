#include "kernels/embedding.h"

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const EmbeddingBackend* kBackends[] = {&cpu::kEmbeddingPlain};

void check_look_up(std::string_view op, ConstTensor x_TD, ConstTensor table_VD, ConstTensor id_T) {
  CADRE_CHECK(x_TD.shape.rank() == 2 && table_VD.shape.rank() == 2, op, ": ", x_TD.shape, " from ",
              table_VD.shape);
  CADRE_CHECK_EQ(x_TD.shape[1], table_VD.shape[1]);
  check_packed_rows(op, x_TD);
  check_packed_rows(op, table_VD);
  CADRE_CHECK(id_T.dtype == DType::kI32 && id_T.packed(), op, ": ids are ", name_of(id_T.dtype),
              " with strides ", id_T.strides, ", must be packed i32");
  CADRE_CHECK_EQ(id_T.shape, Shape{x_TD.shape[0]});
}

void forward(std::string_view op, Context& context, Tensor x_TD, ConstTensor table_VD,
             ConstTensor id_T, int64_t first_row, bool add) {
  check_look_up(op, x_TD, table_VD, id_T);
  CADRE_CHECK(x_TD.dtype == table_VD.dtype, op, ": ", name_of(x_TD.dtype), " from ",
              name_of(table_VD.dtype));
  const EmbeddingBackend& backend = choose(op, kBackends, context, x_TD.dtype);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = op,
                                  .flops = add ? x_TD.shape.elements() : 0,
                                  .bytes_read = (add ? 2 : 1) * x_TD.bytes() + id_T.bytes(),
                                  .bytes_written = x_TD.bytes()});
  if (!context.is_meta()) {
    backend.forward(context, x_TD, table_VD, id_T, first_row, add);
  }
}

}  // namespace

void embedding_forward(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                       int64_t first_row) {
  forward("embedding_forward", context, x_TD, table_VD, id_T, first_row, false);
}

void embedding_add_forward(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                           int64_t first_row) {
  forward("embedding_add_forward", context, x_TD, table_VD, id_T, first_row, true);
}

void embedding_backward(Context& context, Tensor dtable_VD, ConstTensor dx_TD, ConstTensor id_T,
                        int64_t first_row) {
  constexpr std::string_view kOp = "embedding_backward";
  check_look_up(kOp, dx_TD, dtable_VD, id_T);
  CADRE_CHECK(dtable_VD.dtype == DType::kF32, kOp, ": the gradient of the table is ",
              name_of(dtable_VD.dtype), ", must be f32");
  const EmbeddingBackend& backend = choose(kOp, kBackends, context, dx_TD.dtype);
  const int64_t sums_bytes = dx_TD.shape.elements() * bytes_of(DType::kF32);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = dx_TD.shape.elements(),
                                  .bytes_read = dx_TD.bytes() + sums_bytes + id_T.bytes(),
                                  .bytes_written = sums_bytes});
  if (!context.is_meta()) {
    backend.backward(context, dtable_VD, dx_TD, id_T, first_row);
  }
}

}  // namespace cadre::kernels
