// Values worked out by hand, the formulas in double over a wide range, central differences.

#include "kernels/activation.h"

#include <cmath>

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

class ActivationTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, ActivationTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

double gelu(double x) {
  const double inner = std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * inner));
}

// From far below to far above the bend, and what training may overflow to.
std::vector<float> wide_range() {
  std::vector<float> values;
  for (float x = -120.0f; x <= 120.0f; x += 0.37f) {
    values.push_back(x);
  }
  for (const float x : {0.0f, -0.0f, 1e-30f, -1e-6f, 3e4f, -3e4f}) {
    values.push_back(x);
  }
  return values;
}

TEST_P(ActivationTest, SwigluMatchesARowByHand) {
  const float log3 = std::log(3.0f);
  // silu(log 3) = log 3 * 3/4, silu(-log 3) = -log 3 / 4.
  const Tensor gate_up = rig.tensor({1, 6}, {log3, -log3, 0, 2, 4, 8});
  const Tensor y = rig.tensor({1, 3});
  swiglu_forward(rig.context, y, gate_up);
  expect_near(y, rig.tensor({1, 3}, {1.5f * log3, -log3, 0.0f}), 1e-6f);
}

TEST_P(ActivationTest, StaysExactOverAWideRange) {
  const std::vector<float> inputs = wide_range();
  const auto F = static_cast<int64_t>(inputs.size());
  std::vector<float> gate_up_values = inputs;
  gate_up_values.resize(2 * inputs.size(), 1.0f);
  const Tensor y = rig.tensor({1, F});
  swiglu_forward(rig.context, y, rig.tensor({1, 2 * F}, gate_up_values));
  const std::vector<float> silus = values_of(y);
  gelu_forward(rig.context, y, rig.tensor({1, F}, inputs));
  const std::vector<float> gelus = values_of(y);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double x = static_cast<double>(inputs[i]);
    EXPECT_NEAR(silus[i], silu(x), 4e-7 * std::abs(silu(x)) + 1e-36) << "silu of " << x;
    EXPECT_NEAR(gelus[i], gelu(x), 4e-7 * std::abs(x)) << "gelu of " << x;
  }
}

TEST_P(ActivationTest, LetsANaNThrough) {
  const float nan = std::nanf("");
  const Tensor y = rig.tensor({1, 1});
  swiglu_forward(rig.context, y, rig.tensor({1, 2}, {nan, 1.0f}));
  EXPECT_TRUE(std::isnan(values_of(y)[0]));
  gelu_forward(rig.context, y, rig.tensor({1, 1}, {nan}));
  EXPECT_TRUE(std::isnan(values_of(y)[0]));
}

TEST_P(ActivationTest, SwigluBackwardMatchesCentralDifferences) {
  const Tensor gate_up = rig.random({3, 42}, 1);
  const Tensor dy = rig.random({3, 21}, 2);
  const Tensor y = rig.tensor({3, 21});
  const Tensor dgate_up = rig.random({3, 42}, 3);
  swiglu_backward(rig.context, dgate_up, dy, gate_up);
  const auto loss = [&] {
    swiglu_forward(rig.context, y, gate_up);
    return testing::dot(dy, y);
  };
  testing::expect_central_differences(dgate_up, gate_up, loss);
  swiglu_backward(rig.context, gate_up, dy, gate_up);
  EXPECT_EQ(values_of(gate_up), values_of(dgate_up));
}

TEST_P(ActivationTest, GeluBackwardMatchesCentralDifferences) {
  const Tensor x = rig.random({3, 21}, 1);
  const Tensor dy = rig.random({3, 21}, 2);
  const Tensor y = rig.tensor({3, 21});
  const Tensor dx = rig.random({3, 21}, 3);
  gelu_backward(rig.context, dx, dy, x);
  const auto loss = [&] {
    gelu_forward(rig.context, y, x);
    return testing::dot(dy, y);
  };
  testing::expect_central_differences(dx, x, loss);
  const Tensor onto_dy = copy_of(rig, dy);
  gelu_backward(rig.context, onto_dy, onto_dy, x);
  EXPECT_EQ(values_of(onto_dy), values_of(dx));
  gelu_backward(rig.context, x, dy, x);
  EXPECT_EQ(values_of(x), values_of(dx));
}

TEST_P(ActivationTest, ComputesNarrowDtypesInFloatAndTakesStrides) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor gate_up = rig.random({5, 80}, 1, dtype).columns(3, 66);
    const Tensor dy = rig.random({5, 40}, 2, dtype).columns(5, 33);
    const Tensor y = rig.tensor({5, 50}, dtype).columns(1, 33);
    const Tensor dgate_up = rig.tensor({5, 70}, dtype).columns(2, 66);
    const Tensor wide_y = rig.tensor({5, 33});
    const Tensor wide_dgate_up = rig.tensor({5, 66});
    swiglu_forward(rig.context, y, gate_up);
    swiglu_backward(rig.context, dgate_up, dy, gate_up);
    swiglu_forward(rig.context, wide_y, widened(rig, gate_up));
    swiglu_backward(rig.context, wide_dgate_up, widened(rig, dy), widened(rig, gate_up));
    expect_near(y, wide_y, rounding_of(dtype));
    expect_near(dgate_up, wide_dgate_up, rounding_of(dtype));
    const Tensor x = gate_up.columns(0, 33);
    const Tensor wide_dx = rig.tensor({5, 33});
    gelu_forward(rig.context, y, x);
    gelu_forward(rig.context, wide_y, widened(rig, x));
    expect_near(y, wide_y, rounding_of(dtype));
    gelu_backward(rig.context, y, dy, x);
    gelu_backward(rig.context, wide_dx, widened(rig, dy), widened(rig, x));
    expect_near(y, wide_dx, rounding_of(dtype));
  }
}

TEST_P(ActivationTest, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor gate_up = other.random({501, 154}, 1);
    const Tensor dy = other.random({501, 77}, 2);
    const Tensor y = other.tensor({501, 77});
    const Tensor dx = other.tensor({501, 77});
    swiglu_forward(other.context, y, gate_up);
    gelu_backward(other.context, dx, dy, y);
    swiglu_backward(other.context, gate_up, dy, gate_up);
    gelu_forward(other.context, dy, dy);
    const std::vector<float> results = joined({y, dx, gate_up, dy});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
  }
}

TEST(Activation, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor gate_up = rig.tensor({3, 10}, DType::kBf16);
  const Tensor y = rig.tensor({3, 5}, DType::kBf16);
  rig.trace.cut();
  swiglu_forward(rig.context, y, gate_up);
  swiglu_backward(rig.context, gate_up, y, gate_up);
  gelu_forward(rig.context, y, y);
  gelu_backward(rig.context, y, y, y);
  const std::vector<BookedOp> expected = {{"swiglu_forward", 75, 60, 30},
                                          {"swiglu_backward", 165, 90, 60},
                                          {"gelu_forward", 135, 30, 30},
                                          {"gelu_backward", 240, 60, 30}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

TEST(Activation, RefusesAGateThatIsNotTwiceAsWide) {
  Rig rig(kMeta);
  EXPECT_DEATH(swiglu_forward(rig.context, rig.tensor({3, 5}), rig.tensor({3, 5})), "3, 10");
}

}  // namespace
}  // namespace cadre::kernels
