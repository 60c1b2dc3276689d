#include "base/check.h"
#include "kernels/rope.h"

namespace cadre::kernels::cpu {
namespace {

template <typename Element>
void rotate(Element* x, const float* table, int64_t half, float sign) {
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = table[i];
    const float sine = sign * table[i + half];
    const float first = to_float(x[i]);
    const float second = to_float(x[i + half]);
    x[i] = from_float<Element>(first * cosine - second * sine);
    x[i + half] = from_float<Element>(second * cosine + first * sine);
  }
}

template <typename Element>
void run_as(Context& context, const RopeTask& task) {
  const Tensor& x_THD = task.x_THD;
  const ConstTensor& table_PD = task.table_PD;
  const int32_t* const positions = task.position_T.begin<int32_t>();
  const float sign = task.rotation == Rotation::kForward ? 1.0f : -1.0f;
  context.threads.run(x_THD.shape[0], [&](int64_t t, int) {
    const int64_t position = positions[t];
    CADRE_CHECK(0 <= position && position < table_PD.shape[0], "rope_apply: position ", position,
                " of a table of ", table_PD.shape[0]);
    for (int64_t h = 0; h < x_THD.shape[1]; ++h) {
      rotate(x_THD.begin<Element>() + t * x_THD.strides[0] + h * x_THD.strides[1],
             table_PD.begin<float>() + position * table_PD.strides[0], x_THD.shape[2] / 2, sign);
    }
  });
}

void run(Context& context, const RopeTask& task) {
  switch (task.x_THD.dtype) {
    case DType::kF32:
      return run_as<float>(context, task);
    case DType::kBf16:
      return run_as<Bf16>(context, task);
    case DType::kF16:
      return run_as<F16>(context, task);
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "rope_apply of ", name_of(task.x_THD.dtype));
}

}  // namespace

const RopeBackend kRopePlain{.target = Target::kCpu, .run = run};

}  // namespace cadre::kernels::cpu
