#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/combine.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"

namespace cadre::optim {

void orthogonalise(Context& context, Tensor x_RC, int64_t steps) {
  CADRE_CHECK_EQ(x_RC.shape.rank(), 2);
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
  const bool tall = x_RC.shape[0] > x_RC.shape[1];
  const int64_t small = std::min(x_RC.shape[0], x_RC.shape[1]);
  const OwnedTensor squared_1 = allocate(context.workspace, DType::kF32, {1});
  const OwnedTensor gram = allocate(context.workspace, DType::kF32, {small, small});
  const OwnedTensor polynomial = allocate(context.workspace, DType::kF32, {small, small});
  const OwnedTensor product = allocate(context.workspace, DType::kF32, x_RC.shape);
  kernels::squared_sum(context, squared_1, x_RC);
  kernels::scale_to_unit_norm(context, x_RC, x_RC, squared_1);
  for (int64_t step = 0; step < steps; ++step) {
    const ConstTensor x = x_RC;
    if (tall) {
      kernels::matmul(context, gram, x.transposed(), x, {});
    } else {
      kernels::matmul(context, gram, x, x.transposed(), {});
    }
    kernels::matmul(context, polynomial, gram, gram, {});
    kernels::combine(context, polynomial, gram, kB, kC);
    // The polynomial of a symmetric matrix is symmetric, so it may stand on either side.
    if (tall) {
      kernels::matmul(context, product, x, polynomial, {});
    } else {
      kernels::matmul(context, product, polynomial, x, {});
    }
    kernels::combine(context, x_RC, product, 1.0f, kA);
  }
}

float muon_scale(const Shape& shape_OI) {
  const double ratio = static_cast<double>(shape_OI[0]) / static_cast<double>(shape_OI[1]);
  return static_cast<float>(std::sqrt(std::max(1.0, ratio)));
}

}  // namespace cadre::optim
