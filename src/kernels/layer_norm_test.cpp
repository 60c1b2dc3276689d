// A row worked out by hand, central differences, and then what the contract promises.

#include "kernels/layer_norm.h"

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::Rig;
using testing::values_of;

class LayerNormTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, LayerNormTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(LayerNormTest, ForwardMatchesARowByHand) {
  const Tensor x = rig.tensor({1, 3}, {1, 4, 7});
  const Tensor weight = rig.tensor({3}, {1, 2, 10});
  const Tensor bias = rig.tensor({3}, {0, 5, -1});
  const Tensor y = rig.tensor({1, 3});
  const Tensor mean = rig.tensor({1});
  const Tensor rstd = rig.tensor({1});
  // The variance is 6; with an epsilon of 3 rstd is 1 / 3.
  layer_norm_forward(rig.context, y, mean, rstd, x, weight, bias, {.epsilon = 3.0f});
  EXPECT_FLOAT_EQ(values_of(mean)[0], 4.0f);
  EXPECT_FLOAT_EQ(values_of(rstd)[0], 1.0f / 3.0f);
  expect_near(y, rig.tensor({1, 3}, {-1, 5, 9}), 1e-6f);
}

// The variance is taken from distances to the mean, not from a difference of large squares.
TEST_P(LayerNormTest, IsExactFarFromZero) {
  const Tensor x = rig.tensor({1, 4}, {10001, 10002, 10003, 10004});
  const Tensor ones = rig.tensor({4}, {1, 1, 1, 1});
  const Tensor y = rig.tensor({1, 4});
  layer_norm_forward(rig.context, y, rig.tensor({1}), rig.tensor({1}), x, ones, rig.tensor({4}),
                     {.epsilon = 0.0f});
  expect_near(y, rig.tensor({1, 4}, {-1.3416408f, -0.4472136f, 0.4472136f, 1.3416408f}), 1e-6f);
}

TEST_P(LayerNormTest, BackwardMatchesCentralDifferences) {
  const Shape shape{3, 21};
  const Tensor x = rig.random(shape, 1);
  const Tensor weight = rig.random({21}, 2);
  const Tensor bias = rig.random({21}, 7);
  const Tensor dy = rig.random(shape, 3);
  const Tensor dresidual = rig.random(shape, 4);
  const Tensor y = rig.tensor(shape);
  const Tensor mean = rig.tensor({3});
  const Tensor rstd = rig.tensor({3});
  const Tensor dx = rig.random(shape, 5);      // overwritten
  const Tensor dweight = rig.random({21}, 6);  // added to
  const Tensor dbias = rig.random({21}, 8);
  const std::vector<float> dweight_before = values_of(dweight);
  const std::vector<float> dbias_before = values_of(dbias);
  layer_norm_forward(rig.context, y, mean, rstd, x, weight, bias, {});
  layer_norm_backward(rig.context, dx, dweight, dbias, dy, x, weight, mean, rstd, dresidual);
  const auto loss = [&] {
    layer_norm_forward(rig.context, y, rig.tensor({3}), rig.tensor({3}), x, weight, bias, {});
    return testing::dot(dy, y) + testing::dot(dresidual, x);
  };
  testing::expect_central_differences(dx, x, loss);
  subtract(dweight, dweight_before);
  testing::expect_central_differences(dweight, weight, loss);
  subtract(dbias, dbias_before);
  testing::expect_central_differences(dbias, bias, loss);
}

TEST_P(LayerNormTest, AddsTheBranchAndNormalisesWhatItStored) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor x = rig.random({5, 37}, 1, dtype);
    const Tensor branch = rig.random({5, 37}, 2, dtype);
    const Tensor weight = rig.random({37}, 3);
    const Tensor bias = rig.random({37}, 4);
    const Tensor y = rig.tensor({5, 37}, dtype);
    const Tensor y_of_sum = rig.tensor({5, 37}, dtype);
    const Tensor mean = rig.tensor({5});
    const Tensor rstd = rig.tensor({5});
    const std::vector<float> sums = rounded_sums(x, branch);
    layer_norm_forward(rig.context, y_of_sum, mean, rstd, rig.tensor({5, 37}, sums, dtype), weight,
                       bias, {});
    for (const Tensor& sum : {rig.tensor({5, 37}, dtype), copy_of(rig, x), copy_of(rig, branch)}) {
      // The sum may be the memory of either operand: those two hold the same values.
      const ConstTensor left = values_of(sum) == values_of(x) ? sum : x;
      const ConstTensor right = values_of(sum) == values_of(branch) ? sum : branch;
      add_layer_norm_forward(rig.context, sum, y, mean, rstd, left, right, weight, bias, {});
      EXPECT_EQ(values_of(sum), sums);
      EXPECT_EQ(values_of(y), values_of(y_of_sum));
    }
  }
}

TEST_P(LayerNormTest, SumsOnlyForWeightsThatAreNotFrozen) {
  for (const DType dtype : kActivationDTypes) {
    const Shape shape{9, 35};
    const Tensor x = rig.random(shape, 1, dtype);
    const Tensor dy = rig.random(shape, 2, dtype);
    const Tensor weight = rig.random({35}, 3);
    const Tensor mean = rig.random({9}, 4);
    const Tensor rstd = rig.random({9}, 5);
    const Tensor dx = rig.tensor(shape, dtype);
    const Tensor dweight = rig.tensor({35});
    const Tensor dbias = rig.tensor({35});
    layer_norm_backward(rig.context, dx, dweight, dbias, dy, x, weight, mean, rstd, {});
    const Tensor dweight_alone = rig.tensor({35});
    const Tensor dbias_alone = rig.tensor({35});
    const Tensor onto_dy = copy_of(rig, dy);
    layer_norm_backward(rig.context, onto_dy, dweight_alone, {}, onto_dy, x, weight, mean, rstd,
                        {});
    EXPECT_EQ(values_of(onto_dy), values_of(dx));
    layer_norm_backward(rig.context, copy_of(rig, dx), {}, dbias_alone, dy, x, weight, mean, rstd,
                        {});
    EXPECT_EQ(values_of(dweight_alone), values_of(dweight));
    EXPECT_EQ(values_of(dbias_alone), values_of(dbias));
  }
}

TEST_P(LayerNormTest, ComputesNarrowDtypesInFloat) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Shape shape{7, 67};
    const Tensor x = rig.random(shape, 1, dtype);
    const Tensor dy = rig.random(shape, 2, dtype);
    const Tensor weight = rig.random({67}, 3);
    const Tensor bias = rig.random({67}, 4);
    const Tensor y = rig.tensor(shape, dtype);
    const Tensor dx = rig.tensor(shape, dtype);
    const Tensor dweight = rig.tensor({67});
    const Tensor mean = rig.tensor({7});
    const Tensor rstd = rig.tensor({7});
    layer_norm_forward(rig.context, y, mean, rstd, x, weight, bias, {});
    layer_norm_backward(rig.context, dx, dweight, {}, dy, x, weight, mean, rstd, dy);
    const Tensor wide_y = rig.tensor(shape);
    const Tensor wide_dx = rig.tensor(shape);
    const Tensor wide_dweight = rig.tensor({67});
    layer_norm_forward(rig.context, wide_y, mean, rstd, widened(rig, x), weight, bias, {});
    layer_norm_backward(rig.context, wide_dx, wide_dweight, {}, widened(rig, dy), widened(rig, x),
                        weight, mean, rstd, widened(rig, dy));
    expect_near(y, wide_y, rounding_of(dtype));
    expect_near(dx, wide_dx, rounding_of(dtype));
    expect_near(dweight, wide_dweight, 1e-6f);
  }
}

TEST_P(LayerNormTest, GivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shape{1111, 48};
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor x = other.random(shape, 1);
    const Tensor dy = other.random(shape, 2);
    const Tensor weight = other.random({48}, 3);
    const Tensor y = other.tensor(shape);
    const Tensor dweight = other.tensor({48});
    const Tensor dbias = other.tensor({48});
    const Tensor mean = other.tensor({1111});
    const Tensor rstd = other.tensor({1111});
    layer_norm_forward(other.context, y, mean, rstd, x, weight, weight, {});
    layer_norm_backward(other.context, dy, dweight, dbias, dy, x, weight, mean, rstd, {});
    const std::vector<float> results = joined({y, mean, rstd, dy, dweight, dbias});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
  }
}

TEST_P(LayerNormTest, BooksTheSameOnMeta) {
  expect_same_booking(GetParam(), [](Rig& where) {
    const Tensor x = where.tensor({300, 96});
    const Tensor weight = where.tensor({96});
    const Tensor rstd = where.tensor({300});
    add_layer_norm_forward(where.context, x, x, rstd, rstd, x, x, weight, weight, {});
    layer_norm_forward(where.context, x, rstd, rstd, x, weight, weight, {});
    layer_norm_backward(where.context, x, weight, weight, x, x, weight, rstd, rstd, x);
    layer_norm_backward(where.context, x, {}, weight, x, x, weight, rstd, rstd, {});
  });
}

}  // namespace
}  // namespace cadre::kernels
