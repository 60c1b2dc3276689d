#include "kernels/combine.h"

#include <cmath>
#include <vector>

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::Rig;
using testing::values_of;

TEST(Combine, AddsMultiplesAndMayWorkInPlace) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({1, 3}, {1, 2, 3});
  const Tensor y = rig.tensor({1, 3}, {10, 20, 30});
  combine(rig.context, y, x, 2.0f, -1.0f);
  expect_near(y, rig.tensor({1, 3}, {-8, -16, -24}), 0.0f);
  combine(rig.context, x, x, 2.0f, 1.0f);
  expect_near(x, rig.tensor({1, 3}, {3, 6, 9}), 0.0f);
}

// More than two tiles and a rest, shared by threads: every element once, whoever does it.
TEST(Combine, CoversEveryElementOfManyTilesForAnyNumberOfThreads) {
  const Shape shape = {3, 16384 - 5};
  std::vector<float> one_thread;
  for (const int threads : {1, 3}) {
    Rig rig(kCpu, {.threads = threads});
    const Tensor x = rig.random(shape, 1), y = rig.random(shape, 2);
    const std::vector<float> from = values_of(x), before = values_of(y);
    combine(rig.context, y, x, 0.75f, -1.5f);
    const std::vector<float> after = values_of(y);
    for (size_t i = 0; i < after.size(); ++i) {
      const double expected =
          0.75 * static_cast<double>(from[i]) - 1.5 * static_cast<double>(before[i]);
      ASSERT_NEAR(after[i], expected, 1e-6) << i;
    }
    EXPECT_EQ(values_of(x), from);
    if (threads == 1) {
      one_thread = after;
    }
    EXPECT_EQ(after, one_thread);
  }
}

// A first momentum and a plain multiple.
TEST(Combine, TakesFactorsOfZero) {
  Rig rig(kCpu);
  const Tensor y = rig.tensor({2, 2}, {1, -2, 3, -4});
  combine(rig.context, y, rig.tensor({2, 2}, {5, 6, 7, 8}), 0.0f, 3.0f);
  EXPECT_EQ(values_of(y), (std::vector<float>{3, -6, 9, -12}));
  combine(rig.context, y, rig.tensor({2, 2}, {5, 6, 7, 8}), 2.0f, 0.0f);
  EXPECT_EQ(values_of(y), (std::vector<float>{10, 12, 14, 16}));
}

TEST(Combine, ScalesManyTilesToUnitNormAndLeavesItsInputAlone) {
  Rig rig(kCpu, {.threads = 3});
  const Tensor x = rig.random({3, 16384 - 5}, 4), y = rig.tensor(x.shape);
  const std::vector<float> from = values_of(x);
  const double squares = testing::dot(x, x);
  scale_to_unit_norm(rig.context, y, x, rig.tensor({1}, {static_cast<float>(squares)}));
  EXPECT_NEAR(testing::dot(y, y), 1.0, 1e-6);
  EXPECT_EQ(values_of(x), from);
  const std::vector<float> unit = values_of(y);
  for (size_t i = 0; i < unit.size(); ++i) {
    ASSERT_NEAR(unit[i], static_cast<double>(from[i]) / std::sqrt(squares), 1e-8) << i;
  }
}

// The gradient of a matrix that took no part in a step.
TEST(Combine, ScalesZeroesToZeroes) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({2, 3});
  scale_to_unit_norm(rig.context, x, x, rig.tensor({1}));
  EXPECT_EQ(values_of(x), std::vector<float>(6, 0.0f));
}

TEST(Combine, BooksItsCost) {
  for (const Device& device : {kCpu, testing::kMeta}) {
    Rig rig(device);
    const Tensor x = rig.tensor({5, 7}), y = rig.tensor({5, 7}), one = rig.tensor({1});
    rig.trace.discard();
    combine(rig.context, y, x, 2.0f, 1.0f);
    scale_to_unit_norm(rig.context, y, x, one);
    const std::vector<BookedOp>& ops = rig.trace.current().ops;
    ASSERT_EQ(ops.size(), 2u);
    const BookedOp& sum = ops[0];
    EXPECT_EQ(sum.flops, 3 * 35);
    EXPECT_EQ(sum.bytes_read, 2 * 35 * 4);
    EXPECT_EQ(sum.bytes_written, 35 * 4);
    const BookedOp& scaled = ops[1];
    EXPECT_EQ(scaled.flops, 35);
    EXPECT_EQ(scaled.bytes_read, 35 * 4);
    EXPECT_EQ(scaled.bytes_written, 35 * 4);
  }
}

TEST(CombineDeath, RefusesOtherShapesAndTypes) {
  Rig rig(kCpu);
  const Tensor y = rig.tensor({2, 3});
  EXPECT_DEATH(combine(rig.context, y, rig.tensor({3, 2}), 1.0f, 1.0f), "combine");
  EXPECT_DEATH(combine(rig.context, y, rig.tensor({2, 3}, DType::kBf16), 1.0f, 1.0f), "combine");
  EXPECT_DEATH(scale_to_unit_norm(rig.context, y, y, rig.tensor({2})), "scale_to_unit_norm");
}

TEST(Combine, ScalesToUnitNorm) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({1, 2}, {3, 4});
  scale_to_unit_norm(rig.context, x, x, rig.tensor({1}, {25}));
  expect_near(x, rig.tensor({1, 2}, {0.6f, 0.8f}), 1e-6f);
}

}  // namespace
}  // namespace cadre::kernels
