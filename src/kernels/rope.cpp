#include "kernels/rope.h"

#include <string_view>

#include "base/check.h"
#include "kernels/backend.h"

namespace cadre::kernels {
namespace {

constexpr const RopeBackend* kBackends[] = {
#if defined(__x86_64__)
    &cpu::kRopeAvx512, &cpu::kRopeAvx2,
#endif
    &cpu::kRopeSimd, &cpu::kRopePlain};

void check_task(std::string_view op, const RopeTask& task) {
  const Shape& x = task.x_THD.shape;
  CADRE_CHECK(x.rank() == 3 && x[2] % 2 == 0, op, ": x has shape ", x, ", wanted [T, H, even D]");
  CADRE_CHECK(task.x_THD.strides[2] == 1, op, ": x has strides ", task.x_THD.strides,
              ", the last dimension must be packed");
  CADRE_CHECK(task.table_PD.shape.rank() == 2 && task.table_PD.shape[1] == x[2] &&
                  task.table_PD.strides[1] == 1 && task.table_PD.dtype == DType::kF32,
              op, ": the table is ", name_of(task.table_PD.dtype), " ", task.table_PD.shape,
              ", wanted packed f32 rows of ", x[2]);
  CADRE_CHECK_EQ(task.position_T.shape, Shape{x[0]});
  CADRE_CHECK(task.position_T.packed() && task.position_T.dtype == DType::kI32, op,
              ": positions are ", name_of(task.position_T.dtype));
}

}  // namespace

void rope_apply(Context& context, Tensor x_THD, ConstTensor table_PD, ConstTensor position_T,
                Rotation rotation) {
  constexpr std::string_view kName = "rope_apply";
  const RopeTask task{x_THD, table_PD, position_T, rotation};
  check_task(kName, task);
  const RopeBackend& backend = choose(kName, kBackends, context, x_THD.dtype);
  const int64_t rows_bytes = x_THD.shape[0] * x_THD.shape[2] * bytes_of(DType::kF32);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kName,
               .flops = 3 * x_THD.shape.elements(),  // two products and a sum for every element
               .bytes_read = x_THD.bytes() + rows_bytes + position_T.bytes(),
               .bytes_written = x_THD.bytes()});
  if (!context.is_meta()) {
    backend.run(context, task);
  }
}

}  // namespace cadre::kernels
