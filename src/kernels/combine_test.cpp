#include "kernels/combine.h"

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::Rig;

TEST(Combine, AddsMultiplesAndMayWorkInPlace) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({1, 3}, {1, 2, 3});
  const Tensor y = rig.tensor({1, 3}, {10, 20, 30});
  combine(rig.context, y, x, 2.0f, -1.0f);
  expect_near(y, rig.tensor({1, 3}, {-8, -16, -24}), 0.0f);
  combine(rig.context, x, x, 2.0f, 1.0f);
  expect_near(x, rig.tensor({1, 3}, {3, 6, 9}), 0.0f);
}

TEST(Combine, ScalesToUnitNorm) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({1, 2}, {3, 4});
  scale_to_unit_norm(rig.context, x, x, rig.tensor({1}, {25}));
  expect_near(x, rig.tensor({1, 2}, {0.6f, 0.8f}), 1e-6f);
}

}  // namespace
}  // namespace cadre::kernels
