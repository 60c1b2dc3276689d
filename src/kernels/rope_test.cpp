#include "kernels/rope.h"

#include <cmath>
#include <limits>
#include <vector>

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

class RopeTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = 2}};

  // Rows of cosines, then sines, of angles that differ in every channel.
  Tensor table(int64_t P, int64_t D) {
    std::vector<float> values;
    for (int64_t p = 0; p < P; ++p) {
      for (int64_t i = 0; i < D; ++i) {
        const double angle = static_cast<double>(p) / (1.0 + static_cast<double>(i % (D / 2)));
        values.push_back(static_cast<float>(i < D / 2 ? std::cos(angle) : std::sin(angle)));
      }
    }
    return rig.tensor({P, D}, values);
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, RopeTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(RopeTest, TurnsChannelsOfTheTwoHalvesTogether) {
  const Tensor x = rig.tensor({1, 1, 4}, {1, 2, 3, 4});
  const Tensor angles = rig.tensor({2, 4}, {9, 9, 9, 9, 0.5f, 2, 3, 5});
  const Tensor positions = rig.ids({1}, {1});
  rope_apply(rig.context, x, angles, positions, Rotation::kForward);
  // 1 * 0.5 - 3 * 3, 2 * 2 - 4 * 5, 3 * 0.5 + 1 * 3, 4 * 2 + 2 * 5
  expect_near(x, rig.tensor({1, 1, 4}, {-8.5f, -16, 4.5f, 18}), 1e-6f);
}

TEST_P(RopeTest, ForwardMatchesTheFormulaForEveryDtypeAndWidth) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const int64_t D : {2, 24, 40, 64, 66, 128}) {
      const int64_t T = 5;
      const int64_t H = 3;
      const Tensor rows = rig.random({T, H * D + 7}, 1, dtype);  // x begins at column 3
      const Tensor x = rows.columns(3, H * D).split(1, H);
      const Tensor angles = table(9, D);
      const std::vector<int32_t> at = {0, 8, 3, 3, 5};
      std::vector<float> expected = values_of(x);
      const std::vector<float> all_before = values_of(rows);
      const std::vector<float> turns = values_of(angles);
      for (int64_t row = 0; row < T * H; ++row) {
        for (int64_t i = 0; i < D / 2; ++i) {
          const auto turn = static_cast<size_t>(at[static_cast<size_t>(row / H)] * D + i);
          const auto place = static_cast<size_t>(row * D + i);
          const auto half = static_cast<size_t>(D / 2);
          const float first = expected[place];
          const float second = expected[place + half];
          expected[place] = first * turns[turn] - second * turns[turn + half];
          expected[place + half] = second * turns[turn] + first * turns[turn + half];
        }
      }
      rope_apply(rig.context, x, angles, rig.ids({T}, at), Rotation::kForward);
      expect_near(x, rig.tensor({T, H, D}, expected), dtype == DType::kF32 ? 1e-6f : 4e-3f);
      const std::vector<float> all_after = values_of(rows);
      EXPECT_EQ(all_after[2], all_before[2]);
      EXPECT_EQ(all_after[static_cast<size_t>(3 + H * D)],
                all_before[static_cast<size_t>(3 + H * D)]);
    }
  }
}

// A turn by nothing is an identity for every f16, the smallest too, on every target.
TEST_P(RopeTest, KeepsEveryFiniteHalfFloat) {
  std::vector<float> finite;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    finite.push_back(to_float(F16{static_cast<uint16_t>(bits)}));
    finite.push_back(-finite.back());
  }
  const auto T = static_cast<int64_t>(finite.size() / 64);
  finite.resize(static_cast<size_t>(T * 64));
  const Tensor x = rig.tensor({T, 1, 64}, finite, DType::kF16);
  rope_apply(rig.context, x, table(1, 64), rig.ids({T}, std::vector<int32_t>(finite.size() / 64)),
             Rotation::kForward);
  EXPECT_EQ(values_of(x), finite);
}

// The transpose of a rotation turns back what it turned.
TEST_P(RopeTest, BackwardUndoesForward) {
  const Tensor x = rig.random({4, 2, 48}, 1);
  const Tensor before = rig.tensor({4, 2, 48}, values_of(x));
  const Tensor angles = table(7, 48);
  const Tensor positions = rig.ids({4}, {6, 1, 0, 2});
  rope_apply(rig.context, x, angles, positions, Rotation::kForward);
  rope_apply(rig.context, x, angles, positions, Rotation::kBackward);
  expect_near(x, before, 1e-6f);
}

TEST_P(RopeTest, NanStaysInItsPair) {
  const Tensor x = rig.random({2, 1, 64}, 1);
  testing::store(x, 64 + 5, std::numeric_limits<float>::quiet_NaN());
  rope_apply(rig.context, x, table(2, 64), rig.ids({2}, {1, 1}), Rotation::kForward);
  const std::vector<float> values = values_of(x);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(values[i]), i == 64 + 5 || i == 64 + 37) << i;
  }
}

TEST(Rope, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor x = rig.tensor({5, 3, 8}, DType::kBf16);
  rig.trace.cut();
  rope_apply(rig.context, x, rig.tensor({9, 8}), rig.tensor({5}, DType::kI32), Rotation::kForward);
  const std::vector<BookedOp> expected = {{"rope_apply", 360, 240 + 160 + 20, 240}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

TEST(Rope, RefusesAPositionOutsideTheTable) {
  Rig rig(testing::kCpu);
  const Tensor x = rig.tensor({1, 1, 4});
  EXPECT_DEATH(
      rope_apply(rig.context, x, rig.tensor({3, 4}), rig.ids({1}, {3}), Rotation::kForward),
      "position 3 of a table of 3");
}

}  // namespace
}  // namespace cadre::kernels
