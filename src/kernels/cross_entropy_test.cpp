// A row worked out by hand, the formulas in double, central differences, and then what the contract
// promises: ignored targets, slices of the vocabulary, z-loss, gradients over logits.

#include "kernels/cross_entropy.h"

#include <cmath>
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

// All that a loss has, for T rows.
struct Loss {
  Loss(Rig& where, int64_t rows)
      : rig(where),
        max(where.tensor({rows})),
        sum(where.tensor({rows})),
        target_logit(where.tensor({rows})),
        lse(where.tensor({rows})),
        loss(where.tensor({1})),
        z(where.tensor({1})),
        count(where.tensor({1})) {}

  void take(ConstTensor logits, ConstTensor target) {
    cross_entropy_statistics(rig.context, max, sum, target_logit, logits, target, {});
    cross_entropy_loss(rig.context, loss, z, count, lse, max, sum, target_logit, target);
  }

  Rig& rig;
  Tensor max, sum, target_logit, lse, loss, z, count;
};

class CrossEntropyTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropyTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(CrossEntropyTest, MatchesARowByHand) {
  // exp gives 1, 2, 5: the sum is 8; relative to the largest 1.6.
  const Tensor logits = rig.tensor({1, 3}, {0.0f, std::log(2.0f), std::log(5.0f)});
  const Tensor target = rig.ids({1}, {1});
  Loss loss(rig, 1);
  set_values(loss.loss, {10});
  set_values(loss.z, {20});
  set_values(loss.count, {30});
  loss.take(logits, target);
  EXPECT_FLOAT_EQ(values_of(loss.max)[0], std::log(5.0f));
  EXPECT_FLOAT_EQ(values_of(loss.sum)[0], 1.6f);
  EXPECT_FLOAT_EQ(values_of(loss.target_logit)[0], std::log(2.0f));
  EXPECT_FLOAT_EQ(values_of(loss.lse)[0], std::log(8.0f));
  // Added to what was there.
  EXPECT_FLOAT_EQ(values_of(loss.loss)[0], 10.0f + std::log(4.0f));
  EXPECT_FLOAT_EQ(values_of(loss.z)[0], 20.0f + std::log(8.0f) * std::log(8.0f));
  EXPECT_FLOAT_EQ(values_of(loss.count)[0], 31.0f);
  const Tensor dlogits = rig.tensor({1, 3}, {9, 9, 9});
  cross_entropy_backward(rig.context, dlogits, logits, loss.lse, target, {.gradient_scale = 8.0f});
  expect_near(dlogits, rig.tensor({1, 3}, {1, -6, 5}), 1e-6f);
}

TEST_P(CrossEntropyTest, MatchesDoubleForLargeAndOddRows) {
  for (const int64_t V : {1, 7, 63, 64, 65, 1000, 5003}) {
    const Tensor logits = rig.random({3, V}, static_cast<uint64_t>(V));
    std::vector<float> values = values_of(logits);
    for (float& value : values) {
      value = value * 20.0f + 500.0f;  // exp of them overflows
    }
    set_values(logits, values);
    const Tensor target =
        rig.ids({3}, {0, static_cast<int32_t>(V / 2), static_cast<int32_t>(V - 1)});
    Loss loss(rig, 3);
    loss.take(logits, target);
    double expected = 0.0;
    for (int64_t t = 0; t < 3; ++t) {
      double sum = 0.0;
      for (int64_t v = 0; v < V; ++v) {
        sum += std::exp(static_cast<double>(values[static_cast<size_t>(t * V + v)]) - 500.0);
      }
      const double lse = 500.0 + std::log(sum);
      EXPECT_NEAR(values_of(loss.lse)[static_cast<size_t>(t)], lse, 1e-6 * lse) << "V " << V;
      const auto column = static_cast<int64_t>(values_of(target)[static_cast<size_t>(t)]);
      expected += lse - static_cast<double>(values[static_cast<size_t>(t * V + column)]);
    }
    EXPECT_NEAR(values_of(loss.loss)[0], expected, 1e-6 * 500.0) << "V " << V;
  }
}

TEST_P(CrossEntropyTest, BackwardMatchesCentralDifferencesWithZLoss) {
  const Tensor logits = rig.random({3, 19}, 1);
  const Tensor target = rig.ids({3}, {18, kIgnoredTarget, 3});
  const CrossEntropyOptions options{.first_column = 0, .gradient_scale = 3.0f, .z_loss = 0.25f};
  Loss at(rig, 3);
  at.take(logits, target);
  const Tensor dlogits = rig.random({3, 19}, 2);
  cross_entropy_backward(rig.context, dlogits, logits, at.lse, target, options);
  const auto loss = [&] {
    Loss now(rig, 3);
    now.take(logits, target);
    return 3.0 * (static_cast<double>(values_of(now.loss)[0]) +
                  0.25 * static_cast<double>(values_of(now.z)[0]));
  };
  testing::expect_central_differences(dlogits, logits, loss);
}

// Not even read: padding may hold anything.
TEST_P(CrossEntropyTest, IgnoredTargetsHaveNoLossAndNoGradient) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = rig.tensor({3, 2}, {1, 2, nan, nan, 3, 5});
  const Tensor target = rig.ids({3}, {0, kIgnoredTarget, 1});
  Loss all(rig, 3);
  all.take(logits, target);
  Loss counted(rig, 2);
  counted.take(rig.tensor({2, 2}, {1, 2, 3, 5}), rig.ids({2}, {0, 1}));
  EXPECT_EQ(values_of(all.loss), values_of(counted.loss));
  EXPECT_EQ(values_of(all.z), values_of(counted.z));
  EXPECT_EQ(values_of(all.count)[0], 2.0f);
  const Tensor dlogits = rig.random({3, 2}, 1);
  cross_entropy_backward(rig.context, dlogits, logits, all.lse, target, {.z_loss = 0.1f});
  EXPECT_EQ(values_of(dlogits)[2], 0.0f);
  EXPECT_EQ(values_of(dlogits)[3], 0.0f);
  EXPECT_NE(values_of(dlogits)[0], 0.0f);
}

TEST_P(CrossEntropyTest, NoTargetAtAllIsZeroAndFinite) {
  const Tensor logits = rig.random({2, 5}, 1);
  const Tensor target = rig.ids({2}, {kIgnoredTarget, kIgnoredTarget});
  Loss loss(rig, 2);
  loss.take(logits, target);
  EXPECT_EQ(joined({loss.loss, loss.z, loss.count}), (std::vector<float>{0, 0, 0}));
  EXPECT_TRUE(std::isfinite(values_of(loss.lse)[0]));
}

// What tensor parallelism does: the largest of the maxima, the sums moved to it, one target logit.
TEST_P(CrossEntropyTest, SlicesOfTheVocabularyCombineToTheWhole) {
  constexpr int64_t T = 4;
  constexpr int64_t V = 100;
  constexpr int64_t kCut = 37;
  const Tensor logits = rig.random({T, V}, 1);
  const Tensor target = rig.ids({T}, {36, 37, kIgnoredTarget, 99});
  Loss whole(rig, T);
  whole.take(logits, target);
  Loss left(rig, T);
  Loss right(rig, T);
  const ConstTensor left_logits = logits.columns(0, kCut);
  const ConstTensor right_logits = logits.columns(kCut, V - kCut);
  const CrossEntropyOptions left_options{.first_column = 0, .gradient_scale = 1, .z_loss = 0.1f};
  const CrossEntropyOptions right_options{
      .first_column = kCut, .gradient_scale = 1, .z_loss = 0.1f};
  cross_entropy_statistics(rig.context, left.max, left.sum, left.target_logit, left_logits, target,
                           left_options);
  cross_entropy_statistics(rig.context, right.max, right.sum, right.target_logit, right_logits,
                           target, right_options);
  Loss both(rig, T);
  std::vector<float> max, sum, target_logit;
  for (size_t t = 0; t < T; ++t) {
    const float l = values_of(left.max)[t];
    const float r = values_of(right.max)[t];
    max.push_back(std::max(l, r));
    sum.push_back(values_of(left.sum)[t] * std::exp(l - max[t]) +
                  values_of(right.sum)[t] * std::exp(r - max[t]));
    target_logit.push_back(values_of(left.target_logit)[t] + values_of(right.target_logit)[t]);
  }
  cross_entropy_loss(rig.context, both.loss, both.z, both.count, both.lse, rig.tensor({T}, max),
                     rig.tensor({T}, sum), rig.tensor({T}, target_logit), target);
  expect_near(both.loss, whole.loss, 1e-6f);
  expect_near(both.z, whole.z, 1e-6f);
  EXPECT_EQ(values_of(both.count)[0], 3.0f);
  const Tensor dwhole = rig.tensor({T, V});
  const Tensor dparts = rig.tensor({T, V});
  cross_entropy_backward(rig.context, dwhole, logits, whole.lse, target, left_options);
  cross_entropy_backward(rig.context, dparts.columns(0, kCut), left_logits, whole.lse, target,
                         left_options);
  cross_entropy_backward(rig.context, dparts.columns(kCut, V - kCut), right_logits, whole.lse,
                         target, right_options);
  expect_near(dparts, dwhole, 1e-6f);
}

TEST_P(CrossEntropyTest, GradientsMayLieOverTheLogits) {
  for (const DType dtype : kActivationDTypes) {
    for (const int64_t V : {3, 64, 131}) {
      const Tensor logits = rig.random({5, V}, 1);
      const Tensor target = rig.ids({5}, {0, 2, kIgnoredTarget, 1, 2});
      Loss loss(rig, 5);
      loss.take(logits, target);
      const Tensor apart = rig.tensor({5, V}, dtype);
      cross_entropy_backward(rig.context, apart, logits, loss.lse, target, {.z_loss = 0.1f});
      const int64_t stride = V * bytes_of(DType::kF32) / bytes_of(dtype);
      const Tensor over{logits.data, dtype, {5, V}, {stride, 1}};
      cross_entropy_backward(rig.context, over, logits, loss.lse, target, {.z_loss = 0.1f});
      EXPECT_EQ(values_of(over), values_of(apart));
    }
  }
}

TEST_P(CrossEntropyTest, NarrowGradientsAreRoundedOnce) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor logits = rig.random({2, 77}, 1);
    const Tensor target = rig.ids({2}, {5, 76});
    Loss loss(rig, 2);
    loss.take(logits, target);
    const Tensor wide = rig.tensor({2, 77});
    const Tensor narrow = rig.tensor({2, 77}, dtype);
    cross_entropy_backward(rig.context, wide, logits, loss.lse, target, {});
    cross_entropy_backward(rig.context, narrow, logits, loss.lse, target, {});
    std::vector<float> expected = values_of(wide);
    for (float& value : expected) {
      value = rounded(value, dtype);
    }
    EXPECT_EQ(values_of(narrow), expected);
  }
}

TEST_P(CrossEntropyTest, ANaNLogitShowsInTheLoss) {
  const Tensor logits = rig.random({1, 40}, 1);
  testing::store(logits, 17, std::numeric_limits<float>::quiet_NaN());
  Loss loss(rig, 1);
  loss.take(logits, rig.ids({1}, {3}));
  EXPECT_TRUE(std::isnan(values_of(loss.loss)[0]));
}

TEST_P(CrossEntropyTest, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor logits = other.random({57, 2001}, 1);
    std::vector<int32_t> targets(57, 3);
    targets[7] = kIgnoredTarget;
    const Tensor target = other.ids({57}, targets);
    Loss loss(other, 57);
    loss.take(logits, target);
    cross_entropy_backward(other.context, logits, logits, loss.lse, target, {});
    const std::vector<float> results = joined({loss.loss, loss.z, loss.lse, logits});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
  }
}

TEST(CrossEntropy, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor logits = rig.tensor({3, 10});
  const Tensor dlogits = rig.tensor({3, 10}, DType::kBf16);
  const Tensor target = rig.tensor({3}, DType::kI32);
  Loss loss(rig, 3);
  rig.trace.cut();
  loss.take(logits, target);
  cross_entropy_backward(rig.context, dlogits, logits, loss.lse, target, {});
  const std::vector<BookedOp> expected = {{"cross_entropy_statistics", 120, 132, 36},
                                          {"cross_entropy_loss", 18, 48, 12},
                                          {"cross_entropy_backward", 120, 144, 60}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
