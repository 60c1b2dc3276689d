// A row worked out by hand, central differences, and then what the contract promises: aliases,
// strides, frozen weights, dtypes, bits that do not depend on threads, booking.

#include "kernels/rms_norm.h"

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

class RmsNormTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, RmsNormTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(RmsNormTest, ForwardMatchesARowByHand) {
  const Tensor x = rig.tensor({1, 2}, {3, 4});
  const Tensor weight = rig.tensor({2}, {1, 10});
  const Tensor y = rig.tensor({1, 2});
  const Tensor rstd = rig.tensor({1});
  // mean(x^2) is 12.5; with an epsilon of the same size rstd is 1 / sqrt(25).
  rms_norm_forward(rig.context, y, rstd, x, weight, {.epsilon = 12.5f});
  EXPECT_FLOAT_EQ(values_of(rstd)[0], 0.2f);
  expect_near(y, rig.tensor({1, 2}, {0.6f, 8.0f}), 1e-6f);
}

TEST_P(RmsNormTest, BackwardMatchesCentralDifferences) {
  const Shape shape{3, 21};
  const Tensor x = rig.random(shape, 1);
  const Tensor weight = rig.random({21}, 2);
  const Tensor dy = rig.random(shape, 3);
  const Tensor dresidual = rig.random(shape, 4);
  const Tensor y = rig.tensor(shape);
  const Tensor rstd = rig.tensor({3});
  const Tensor dx = rig.random(shape, 5);      // overwritten
  const Tensor dweight = rig.random({21}, 6);  // added to
  const std::vector<float> dweight_before = values_of(dweight);
  rms_norm_forward(rig.context, y, rstd, x, weight, {});
  rms_norm_backward(rig.context, dx, dweight, dy, x, weight, rstd, dresidual);
  // The scalar whose gradient is asked for: dresidual flows past the norm.
  const auto loss = [&] {
    rms_norm_forward(rig.context, y, rig.tensor({3}), x, weight, {});
    return testing::dot(dy, y) + testing::dot(dresidual, x);
  };
  testing::expect_central_differences(dx, x, loss);
  subtract(dweight, dweight_before);
  testing::expect_central_differences(dweight, weight, loss);
}

TEST_P(RmsNormTest, AddsTheBranchAndNormalisesWhatItStored) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor x = rig.random({5, 37}, 1, dtype);
    const Tensor branch = rig.random({5, 37}, 2, dtype);
    const Tensor weight = rig.random({37}, 3);
    const Tensor sum = rig.tensor({5, 37}, dtype);
    const Tensor y = rig.tensor({5, 37}, dtype);
    const Tensor y_of_sum = rig.tensor({5, 37}, dtype);
    const Tensor rstd = rig.tensor({5});
    const Tensor rstd_of_sum = rig.tensor({5});
    add_rms_norm_forward(rig.context, sum, y, rstd, x, branch, weight, {});
    rms_norm_forward(rig.context, y_of_sum, rstd_of_sum, sum, weight, {});
    EXPECT_EQ(values_of(y), values_of(y_of_sum));
    EXPECT_EQ(values_of(rstd), values_of(rstd_of_sum));
    EXPECT_EQ(values_of(sum), rounded_sums(x, branch));
    // The sum may be the memory of either.
    const Tensor onto_x = copy_of(rig, x);
    add_rms_norm_forward(rig.context, onto_x, y, rstd, onto_x, branch, weight, {});
    EXPECT_EQ(values_of(onto_x), values_of(sum));
    EXPECT_EQ(values_of(y), values_of(y_of_sum));
    const Tensor onto_branch = copy_of(rig, branch);
    add_rms_norm_forward(rig.context, onto_branch, y, rstd, x, onto_branch, weight, {});
    EXPECT_EQ(values_of(onto_branch), values_of(sum));
    EXPECT_EQ(values_of(y), values_of(y_of_sum));
  }
}

TEST_P(RmsNormTest, BackwardMayWriteOverItsInputs) {
  for (const DType dtype : kActivationDTypes) {
    const Shape shape{4, 51};
    const Tensor x = rig.random(shape, 1, dtype);
    const Tensor dy = rig.random(shape, 2, dtype);
    const Tensor dresidual = rig.random(shape, 3, dtype);
    const Tensor weight = rig.random({51}, 4);
    const Tensor rstd = rig.tensor({4}, {0.5f, 1.5f, 2.0f, 0.7f});
    const Tensor dx = rig.tensor(shape, dtype);
    rms_norm_backward(rig.context, dx, {}, dy, x, weight, rstd, dresidual);
    const std::vector<float> expected = values_of(dx);
    const Tensor onto_dy = copy_of(rig, dy);
    rms_norm_backward(rig.context, onto_dy, {}, onto_dy, x, weight, rstd, dresidual);
    EXPECT_EQ(values_of(onto_dy), expected);
    const Tensor onto_dresidual = copy_of(rig, dresidual);
    rms_norm_backward(rig.context, onto_dresidual, {}, dy, x, weight, rstd, onto_dresidual);
    EXPECT_EQ(values_of(onto_dresidual), expected);
  }
}

// Queries and keys are normalised per head where they lie, inside fused qkv rows.
TEST_P(RmsNormTest, TakesHeadsInsideFusedRows) {
  for (const DType dtype : kActivationDTypes) {
    constexpr int64_t T = 3;
    constexpr int64_t H = 2;
    constexpr int64_t D = 5;
    const Tensor qkv = rig.random({T, 4 * H * D}, 1, dtype);
    const Tensor k = qkv.columns(H * D, H * D).split(1, H);
    const Tensor packed_k = copy_of(rig, k);
    const Tensor weight = rig.random({D}, 2);
    const Tensor y = rig.tensor({T, 4 * H * D}, dtype).columns(D, H * D).split(1, H);
    const Tensor packed_y = rig.tensor({T * H, D}, dtype);
    const Tensor rstd = rig.tensor({T, H});
    const Tensor packed_rstd = rig.tensor({T * H});
    rms_norm_forward(rig.context, y, rstd, k, weight, {});
    rms_norm_forward(rig.context, packed_y, packed_rstd, packed_k.reshaped({T * H, D}), weight, {});
    EXPECT_EQ(values_of(y), values_of(packed_y));
    EXPECT_EQ(values_of(rstd), values_of(packed_rstd));
    // dx over dy, both strided.
    const Tensor dweight = rig.tensor({D});
    const Tensor packed_dweight = rig.tensor({D});
    const Tensor packed_dy = copy_of(rig, y).reshaped({T * H, D});
    rms_norm_backward(rig.context, y, dweight, y, k, weight, rstd, {});
    rms_norm_backward(rig.context, packed_dy, packed_dweight, packed_dy,
                      packed_k.reshaped({T * H, D}), weight, packed_rstd, {});
    EXPECT_EQ(values_of(y), values_of(packed_dy));
    EXPECT_EQ(values_of(dweight), values_of(packed_dweight));
  }
}

// Narrow dtypes are storage: the same as f32 of the rounded inputs, rounded once.
TEST_P(RmsNormTest, ComputesNarrowDtypesInFloat) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Shape shape{7, 67};
    const Tensor x = rig.random(shape, 1, dtype);
    const Tensor dy = rig.random(shape, 2, dtype);
    const Tensor weight = rig.random({67}, 3);
    const Tensor y = rig.tensor(shape, dtype);
    const Tensor dx = rig.tensor(shape, dtype);
    const Tensor dweight = rig.tensor({67});
    const Tensor rstd = rig.tensor({7});
    rms_norm_forward(rig.context, y, rstd, x, weight, {});
    rms_norm_backward(rig.context, dx, dweight, dy, x, weight, rstd, {});
    const Tensor wide_y = rig.tensor(shape);
    const Tensor wide_dx = rig.tensor(shape);
    const Tensor wide_dweight = rig.tensor({67});
    rms_norm_forward(rig.context, wide_y, rstd, widened(rig, x), weight, {});
    rms_norm_backward(rig.context, wide_dx, wide_dweight, widened(rig, dy), widened(rig, x), weight,
                      rstd, {});
    expect_near(y, wide_y, rounding_of(dtype));
    expect_near(dx, wide_dx, rounding_of(dtype));
    expect_near(dweight, wide_dweight, 1e-6f);
  }
}

TEST_P(RmsNormTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shape{1111, 48};
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor x = other.random(shape, 1);
    const Tensor dy = other.random(shape, 2);
    const Tensor weight = other.random({48}, 3);
    const Tensor y = other.tensor(shape);
    const Tensor dweight = other.tensor({48});
    const Tensor rstd = other.tensor({1111});
    rms_norm_forward(other.context, y, rstd, x, weight, {});
    rms_norm_backward(other.context, dy, dweight, dy, x, weight, rstd, {});
    const std::vector<float> results = joined({y, rstd, dy, dweight});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
    EXPECT_EQ(other.workspace.used_bytes(), 0);
  }
}

TEST_P(RmsNormTest, TakesNoRows) {
  const Tensor none = rig.tensor({0, 8});
  const Tensor weight = rig.tensor({8});
  const Tensor dweight = rig.random({8}, 1);
  const std::vector<float> before = values_of(dweight);
  rms_norm_forward(rig.context, none, rig.tensor({0}), none, weight, {});
  rms_norm_backward(rig.context, none, dweight, none, none, weight, rig.tensor({0}), {});
  EXPECT_EQ(values_of(dweight), before);
}

TEST_P(RmsNormTest, BooksTheSameOnMeta) {
  expect_same_booking(GetParam(), [](Rig& where) {
    const Tensor x = where.tensor({300, 96});
    const Tensor weight = where.tensor({96});
    const Tensor rstd = where.tensor({300});
    add_rms_norm_forward(where.context, x, x, rstd, x, x, weight, {});
    rms_norm_forward(where.context, x, rstd, x, weight, {});
    rms_norm_backward(where.context, x, weight, x, x, weight, rstd, x);
    rms_norm_backward(where.context, x, {}, x, x, weight, rstd, {});
  });
}

TEST(RmsNorm, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor x = rig.tensor({3, 10});
  const Tensor weight = rig.tensor({10});
  const Tensor rstd = rig.tensor({3});
  rig.trace.cut();
  rms_norm_forward(rig.context, x, rstd, x, weight, {});
  rms_norm_backward(rig.context, x, weight, x, x, weight, rstd, {});
  // T * D is 30 elements; x takes 120 bytes, weight 40, rstd 12.
  const std::vector<BookedOp> expected = {{"rms_norm_forward", 120, 160, 132},
                                          {"rms_norm_backward", 270, 332, 160}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

TEST(RmsNorm, RefusesShapesThatDoNotFit) {
  Rig rig(kMeta);
  const Tensor x = rig.tensor({3, 10});
  EXPECT_DEATH(rms_norm_forward(rig.context, x, rig.tensor({3}), x, rig.tensor({3}), {}),
               "rms_norm_forward: f32 of shape .3., strides .1.; wanted packed f32 of shape .10.");
  EXPECT_DEATH(
      rms_norm_forward(rig.context, rig.tensor({3, 9}), rig.tensor({3}), x, rig.tensor({10}), {}),
      "rms_norm_forward: f32 of shape .3, 9. beside f32 of shape .3, 10.");
}

}  // namespace
}  // namespace cadre::kernels
