// Every update against the formula in double over several steps, then what the contract promises.

#include "kernels/optimizer.h"

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::set_values;
using testing::values_of;

constexpr int64_t kRows = 7;
constexpr int64_t kColumns = 83;
constexpr float kScale = 0.25f;

class OptimizerTest : public ::testing::TestWithParam<Target> {
 protected:
  UpdateTensors parameter(DType copy_dtype) {
    const Shape shape{kRows, kColumns};
    return {.value = rig.random(shape, 1),
            .copy = copy_dtype == DType::kF32 ? Tensor{} : rig.tensor(shape, copy_dtype),
            .gradient = rig.tensor(shape)};
  }

  void set_gradient(const UpdateTensors& of, uint64_t step) {
    set_values(of.gradient, values_of(rig.random({kRows, kColumns}, 100 + step)));
  }

  void expect_copy(const UpdateTensors& of) {
    EXPECT_EQ(values_of(of.gradient), std::vector<float>(kRows * kColumns, 0.0f));
    if (!of.copy.empty()) {
      std::vector<float> expected = values_of(of.value);
      for (float& value : expected) {
        value = rounded(value, of.copy.dtype);
      }
      EXPECT_EQ(values_of(of.copy), expected);
    }
  }

  Tensor numbers(const std::vector<double>& values) {
    return rig.tensor({kRows, kColumns}, {values.begin(), values.end()});
  }

  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
  Tensor scale = rig.tensor({1}, {kScale});
};
INSTANTIATE_TEST_SUITE_P(Targets, OptimizerTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

std::vector<double> doubles(ConstTensor t) {
  const std::vector<float> values = values_of(t);
  return {values.begin(), values.end()};
}

TEST_P(OptimizerTest, AdamWMatchesDoubleOverSeveralSteps) {
  for (const DType copy_dtype : kActivationDTypes) {
    const UpdateTensors p = parameter(copy_dtype);
    const Tensor m = rig.tensor({kRows, kColumns});
    const Tensor v = rig.tensor({kRows, kColumns});
    std::vector<double> value = doubles(p.value);
    std::vector<double> first(value.size(), 0.0);
    std::vector<double> second(value.size(), 0.0);
    for (int64_t step = 1; step <= 5; ++step) {
      set_gradient(p, static_cast<uint64_t>(step));
      const std::vector<double> gradient = doubles(p.gradient);
      adamw_update(rig.context, p, m, v, scale,
                   {.learning_rate = 0.05f,
                    .beta1 = 0.9f,
                    .beta2 = 0.95f,
                    .epsilon = 1e-3f,
                    .weight_decay = 0.3f,
                    .step = step});
      for (size_t i = 0; i < value.size(); ++i) {
        const double g = 0.25 * gradient[i];
        first[i] = 0.9 * first[i] + 0.1 * g;
        second[i] = 0.95 * second[i] + 0.05 * g * g;
        value[i] -= 0.05 * 0.3 * value[i];
        const double n = static_cast<double>(step);
        value[i] -= 0.05 * (first[i] / (1.0 - std::pow(0.9, n))) /
                    (std::sqrt(second[i] / (1.0 - std::pow(0.95, n))) + 1e-3);
      }
      expect_copy(p);
    }
    expect_near(p.value, numbers(value), 1e-6f);
    expect_near(m, numbers(first), 1e-6f);
    expect_near(v, numbers(second), 1e-6f);
  }
}

TEST_P(OptimizerTest, SgdMatchesDoubleOverSeveralSteps) {
  for (const float momentum : {0.0f, 0.8f}) {
    for (const bool nesterov : {false, true}) {
      const UpdateTensors p = parameter(DType::kBf16);
      const Tensor m = momentum == 0.0f ? Tensor{} : rig.tensor({kRows, kColumns});
      std::vector<double> value = doubles(p.value);
      std::vector<double> moved(value.size(), 0.0);
      for (uint64_t step = 1; step <= 4; ++step) {
        set_gradient(p, step);
        const std::vector<double> gradient = doubles(p.gradient);
        sgd_update(rig.context, p, m, scale,
                   {.learning_rate = 0.1f,
                    .momentum = momentum,
                    .nesterov = nesterov,
                    .weight_decay = 0.3f});
        for (size_t i = 0; i < value.size(); ++i) {
          const double g = 0.25 * gradient[i];
          const double beta = static_cast<double>(momentum);
          moved[i] = beta * moved[i] + g;
          value[i] -= 0.1 * 0.3 * value[i];
          value[i] -= 0.1 * (nesterov ? g + beta * moved[i] : moved[i]);
        }
        expect_copy(p);
      }
      expect_near(p.value, numbers(value), 1e-6f);
    }
  }
}

TEST_P(OptimizerTest, LionMatchesDoubleOverSeveralSteps) {
  const UpdateTensors p = parameter(DType::kF16);
  const Tensor m = rig.tensor({kRows, kColumns});
  std::vector<double> value = doubles(p.value);
  std::vector<double> moved(value.size(), 0.0);
  for (uint64_t step = 1; step <= 4; ++step) {
    set_gradient(p, step);
    testing::store(p.gradient, 5, 0.0f);  // the sign of nothing is 0
    const std::vector<double> gradient = doubles(p.gradient);
    lion_update(rig.context, p, m, scale,
                {.learning_rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .weight_decay = 0.3f});
    for (size_t i = 0; i < value.size(); ++i) {
      const double g = 0.25 * gradient[i];
      const double u = 0.9 * moved[i] + 0.1 * g;
      moved[i] = 0.99 * moved[i] + 0.01 * g;
      value[i] -= 0.1 * ((u > 0.0 ? 1.0 : u < 0.0 ? -1.0 : 0.0) + 0.3 * value[i]);
    }
    expect_copy(p);
  }
  expect_near(p.value, numbers(value), 1e-6f);
  expect_near(m, numbers(moved), 1e-5f);
}

TEST_P(OptimizerTest, MuonMovesItsMomentumAndApplies) {
  for (const bool nesterov : {false, true}) {
    const UpdateTensors p = parameter(DType::kBf16);
    const Tensor m = rig.random({kRows, kColumns}, 2);
    const Tensor update = rig.random({kRows, kColumns}, 3);
    set_gradient(p, 1);
    std::vector<double> moved = doubles(m);
    std::vector<double> expected(moved.size());
    std::vector<double> value = doubles(p.value);
    const std::vector<double> gradient = doubles(p.gradient);
    muon_momentum(rig.context, update, m, p.gradient, scale, 0.95f, nesterov);
    muon_apply(rig.context, p.value, p.copy, update, scale, 0.1f, 1.5f, 0.3f);
    for (size_t i = 0; i < value.size(); ++i) {
      moved[i] = 0.95 * moved[i] + 0.25 * gradient[i];
      expected[i] = nesterov ? 0.25 * gradient[i] + 0.95 * moved[i] : moved[i];
      value[i] -= 0.1 * (1.5 * expected[i] + 0.3 * value[i]);
    }
    expect_near(m, numbers(moved), 1e-6f);
    expect_near(update, numbers(expected), 1e-6f);
    expect_near(p.value, numbers(value), 1e-6f);
    expect_copy(p);
  }
}

TEST_P(OptimizerTest, AScaleThatIsNotFiniteOnlyClearsTheGradient) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const UpdateTensors p = parameter(DType::kBf16);
    const Tensor m = rig.random({kRows, kColumns}, 2);
    const Tensor v = rig.random({kRows, kColumns}, 3);
    const Tensor update = rig.random({kRows, kColumns}, 4);
    const std::vector<float> before = joined({p.value, p.copy, m, v});
    set_values(scale, {bad});
    const std::vector<float> zeroes(kRows * kColumns, 0.0f);
    const std::vector<std::function<void()>> updates = {
        [&] { adamw_update(rig.context, p, m, v, scale, {.learning_rate = 0.1f}); },
        [&] { sgd_update(rig.context, p, m, scale, {.learning_rate = 0.1f, .momentum = 0.9f}); },
        [&] { lion_update(rig.context, p, m, scale, {.learning_rate = 0.1f}); },
        [&] {
          muon_momentum(rig.context, update, m, p.gradient, scale, 0.9f, true);
          EXPECT_EQ(values_of(update), zeroes);
          muon_apply(rig.context, p.value, p.copy, update, scale, 0.1f, 1.0f, 0.1f);
        }};
    for (const std::function<void()>& update_once : updates) {
      set_gradient(p, 1);
      testing::store(p.gradient, 11, bad);
      update_once();
      EXPECT_EQ(joined({p.value, p.copy, m, v}), before);
      EXPECT_EQ(values_of(p.gradient), zeroes);
    }
  }
}

TEST_P(OptimizerTest, SquaredSumMatchesByHandAndDouble) {
  const Tensor sum = rig.tensor({1}, {9});
  squared_sum(rig.context, sum, rig.tensor({3}, {1, 2, 3}));
  EXPECT_EQ(values_of(sum)[0], 14.0f);
  const Tensor x = rig.random({77, 1013}, 1);
  double expected = 0.0;
  for (const double value : doubles(x)) {
    expected += value * value;
  }
  squared_sum(rig.context, sum, x);
  EXPECT_FLOAT_EQ(values_of(sum)[0], static_cast<float>(expected));
  // A float would lose the small ones beside a large one.
  std::vector<float> values(100000, 1.0f);
  values[0] = 10000.0f;
  squared_sum(rig.context, sum, rig.tensor({100000}, values));
  EXPECT_EQ(values_of(sum)[0], 100099999.0f);
  squared_sum(rig.context, sum, rig.tensor({0}));
  EXPECT_EQ(values_of(sum)[0], 0.0f);
}

TEST_P(OptimizerTest, SquaredSumShowsWhatIsNotFinite) {
  const Tensor sum = rig.tensor({1});
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const int64_t place : {0, 13, 98}) {
      const Tensor x = rig.random({99}, 1);
      testing::store(x, place, bad);
      squared_sum(rig.context, sum, x);
      EXPECT_FALSE(std::isfinite(values_of(sum)[0]));
    }
  }
}

TEST_P(OptimizerTest, GradientScaleNormalisesAndClips) {
  const Tensor out = rig.tensor({1});
  const Tensor norm = rig.tensor({1});
  const Tensor squared = rig.tensor({2}, {36, 64});  // a norm of 10
  const Tensor count = rig.tensor({1}, {4});
  gradient_scale(rig.context, out, norm, squared, count, {.loss_scale = 2.0f, .max_norm = 0.0f});
  EXPECT_FLOAT_EQ(values_of(norm)[0], 1.25f);
  EXPECT_FLOAT_EQ(values_of(out)[0], 0.125f);
  gradient_scale(rig.context, out, norm, squared, count, {.loss_scale = 2.0f, .max_norm = 0.5f});
  EXPECT_FLOAT_EQ(values_of(norm)[0], 1.25f);  // of before the clip
  EXPECT_FLOAT_EQ(values_of(out)[0], static_cast<float>(0.125 * 0.5 / (1.25 + 1e-6)));
  gradient_scale(rig.context, out, norm, squared, count, {.loss_scale = 2.0f, .max_norm = 1.5f});
  EXPECT_FLOAT_EQ(values_of(out)[0], 0.125f);  // short enough
}

TEST_P(OptimizerTest, GradientScaleOfNoTargetsIsZeroAndOfOverflowNaN) {
  const Tensor out = rig.tensor({1});
  const Tensor norm = rig.tensor({1});
  gradient_scale(rig.context, out, norm, rig.tensor({2}), rig.tensor({1}), {.max_norm = 1.0f});
  EXPECT_EQ(joined({out, norm}), (std::vector<float>{0, 0}));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    gradient_scale(rig.context, out, norm, rig.tensor({2}, {1, bad}), rig.tensor({1}, {4}),
                   {.max_norm = 1.0f});
    EXPECT_TRUE(std::isnan(values_of(out)[0]));
    EXPECT_TRUE(std::isnan(values_of(norm)[0]));
  }
}

TEST_P(OptimizerTest, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Shape shape{1, 100003};
    const UpdateTensors p{.value = other.random(shape, 1),
                          .copy = other.tensor(shape, DType::kBf16),
                          .gradient = other.random(shape, 2)};
    const Tensor m = other.random(shape, 3);
    const Tensor v = other.tensor(shape, std::vector<float>(100003, 0.5f));
    const Tensor sum = other.tensor({1});
    squared_sum(other.context, sum, p.gradient);
    adamw_update(other.context, p, m, v, other.tensor({1}, {0.5f}), {.learning_rate = 0.1f});
    const std::vector<float> results = joined({p.value, p.copy, m, v, sum});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
  }
}

TEST(Optimizer, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor x = rig.tensor({10});
  const Tensor copy = rig.tensor({10}, DType::kBf16);
  const Tensor one = rig.tensor({1});
  rig.trace.cut();
  adamw_update(rig.context, {x, copy, x}, x, x, one, {});
  sgd_update(rig.context, {x, {}, x}, {}, one, {});
  lion_update(rig.context, {x, {}, x}, x, one, {});
  muon_momentum(rig.context, x, x, x, one, 0.9f, true);
  muon_apply(rig.context, x, copy, x, one, 0.1f, 1.0f, 0.0f);
  squared_sum(rig.context, one, x);
  gradient_scale(rig.context, one, one, x, one, {});
  const std::vector<BookedOp> expected = {
      {"adamw_update", 150, 160, 180}, {"sgd_update", 50, 80, 80}, {"lion_update", 110, 120, 120},
      {"muon_momentum", 50, 80, 120},  {"muon_apply", 50, 80, 60}, {"squared_sum", 20, 40, 4},
      {"gradient_scale", 10, 44, 8}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

TEST_P(OptimizerTest, BooksTheSameOnMeta) {
  expect_same_booking(GetParam(), [](Rig& where) {
    const Tensor x = where.tensor({100003});
    const Tensor one = where.tensor({1});
    squared_sum(where.context, one, x);
    adamw_update(where.context, {x, {}, where.tensor({100003})}, x, x, one, {});
  });
}

}  // namespace
}  // namespace cadre::kernels
