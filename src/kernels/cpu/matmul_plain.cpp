// The matrix product in plain C++: slow, obvious, and what the others are compared with.

#include "base/check.h"
#include "kernels/matmul.h"

namespace cadre::kernels::cpu {
namespace {

int64_t plan_workspace_bytes(const MatmulTask&, int) {
  return 0;
}

float load(ConstTensor vector, int64_t index) {
  switch (vector.dtype) {
    case DType::kF32:
      return vector.begin<float>()[index];
    case DType::kBf16:
      return to_float(vector.begin<Bf16>()[index]);
    case DType::kF16:
      return to_float(vector.begin<F16>()[index]);
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "matmul of ", name_of(vector.dtype));
  return 0.0f;
}

template <typename Product, typename Operand>
void multiply(Context& context, const MatmulTask& task) {
  const Tensor c_MN = task.c_MN;
  const ConstTensor a_MK = task.a_MK;
  const ConstTensor b_KN = task.b_KN;
  const Operand* const a = a_MK.begin<Operand>();
  const Operand* const b = b_KN.begin<Operand>();
  context.threads.run(c_MN.shape[0], [&](int64_t m, int) {
    Product* const c = c_MN.begin<Product>() + m * c_MN.strides[0];
    for (int64_t n = 0; n < c_MN.shape[1]; ++n) {
      float sum = 0.0f;
      for (int64_t k = 0; k < a_MK.shape[1]; ++k) {
        sum += to_float(a[m * a_MK.strides[0] + k * a_MK.strides[1]]) *
               to_float(b[k * b_KN.strides[0] + n * b_KN.strides[1]]);
      }
      if (task.store == Store::kAdd) {
        sum += to_float(c[n]);
      } else if (!task.bias_N.empty()) {
        sum += load(task.bias_N, n);
      }
      c[n] = from_float<Product>(sum);
    }
  });
}

void run(Context& context, const MatmulTask& task, std::byte*) {
  const bool widens = task.c_MN.dtype == DType::kF32;
  switch (task.a_MK.dtype) {
    case DType::kF32:
      return multiply<float, float>(context, task);
    case DType::kBf16:
      return widens ? multiply<float, Bf16>(context, task) : multiply<Bf16, Bf16>(context, task);
    case DType::kF16:
      return widens ? multiply<float, F16>(context, task) : multiply<F16, F16>(context, task);
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "matmul of ", name_of(task.a_MK.dtype));
}

}  // namespace

const MatmulBackend kMatmulPlain{.target = Target::kCpu,
                                 .plan_workspace_bytes = plan_workspace_bytes,
                                 .plan_any_rows_bytes = plan_workspace_bytes,
                                 .plan_any_depth_bytes = plan_workspace_bytes,
                                 .run = run};

}  // namespace cadre::kernels::cpu
