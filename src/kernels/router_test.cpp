#include "kernels/router.h"

#include <cmath>
#include <limits>

#include "kernels/cross_entropy.h"
#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::kMeta;
using testing::Rig;
using testing::values_of;

class RouterTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = 2}};
};
INSTANTIATE_TEST_SUITE_P(Targets, RouterTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

struct Choice {
  std::vector<float> expert, weight;
};

Choice choice(Rig& rig, const std::vector<float>& logits, int64_t slots, ConstTensor bias,
              const RouterOptions& options) {
  const Tensor expert = rig.tensor({1, slots}, DType::kI32);
  const Tensor weight = rig.tensor({1, slots});
  route_forward(rig.context, expert, weight,
                rig.tensor({1, static_cast<int64_t>(logits.size())}, logits), bias, options);
  return {values_of(expert), values_of(weight)};
}

constexpr RouterOptions kSigmoidSums{.scores = RouterScores::kSigmoid, .normalise = false};

TEST_P(RouterTest, WeighsByASoftmaxOverTheChosen) {
  const Choice got = choice(rig, {0, std::log(6.0f), std::log(3.0f), 0}, 2, {}, {});
  EXPECT_EQ(got.expert, (std::vector<float>{1, 2}));
  EXPECT_NEAR(got.weight[0], 2.0f / 3, 1e-6f);
  EXPECT_NEAR(got.weight[1], 1.0f / 3, 1e-6f);
}

TEST_P(RouterTest, WeighsByTheShareOfAllUnlessNormalised) {
  const Choice got = choice(rig, {0, std::log(6.0f), std::log(3.0f), 0}, 2, {},
                            {.normalise = false, .scale = 2.0f});
  EXPECT_NEAR(got.weight[0], 2 * 6.0f / 11, 1e-6f);
  EXPECT_NEAR(got.weight[1], 2 * 3.0f / 11, 1e-6f);
}

TEST_P(RouterTest, ABiasMovesTheChoiceAndNotTheWeight) {
  const Tensor bias = rig.tensor({3}, {0, 0, 5});
  const Choice got = choice(rig, {std::log(3.0f), 0, -std::log(3.0f)}, 2, bias, kSigmoidSums);
  EXPECT_EQ(got.expert, (std::vector<float>{2, 0}));
  EXPECT_NEAR(got.weight[0], 0.25f, 1e-6f);
  EXPECT_NEAR(got.weight[1], 0.75f, 1e-6f);
}

TEST_P(RouterTest, ChoosesFromTheBestGroupsOnly) {
  RouterOptions options = kSigmoidSums;
  options.groups = 3;
  // By their best: the first group. By their best two: the second.
  const std::vector<float> logits = {4, -9, 2, 2, 1, 1};
  EXPECT_EQ(choice(rig, logits, 2, {}, options).expert, (std::vector<float>{0, 1}));
  options.experts_of_group_score = 2;
  EXPECT_EQ(choice(rig, logits, 2, {}, options).expert, (std::vector<float>{2, 3}));
  options.groups_kept = 2;
  EXPECT_EQ(choice(rig, logits, 3, {}, options).expert, (std::vector<float>{2, 3, 4}));
}

TEST_P(RouterTest, TakesTheFirstOfEqualExpertsAndNeverOneTwice) {
  EXPECT_EQ(choice(rig, {1, 1, 1, 1}, 3, {}, {}).expert, (std::vector<float>{0, 1, 2}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(choice(rig, {nan, nan, nan}, 2, {}, {}).expert, (std::vector<float>{0, 1}));
}

// Two sequences of three tokens, the last of which has no target.
struct LossRig {
  explicit LossRig(Rig& of, const RouterOptions& wanted)
      : rig(of),
        options(wanted),
        logits(of.random({6, 4}, 7)),
        bias(of.tensor({4}, {0.3f, 0, -0.2f, 0.1f})),
        expert(of.tensor({6, 2}, DType::kI32)),
        weight(of.tensor({6, 2})),
        dweight(of.random({6, 2}, 8)),
        target(of.ids({6}, {1, 2, kIgnoredTarget, 4, 5, kIgnoredTarget})),
        statistics(of.tensor({2, 10})) {}

  void route() {
    route_forward(rig.context, expert, weight, logits, bias, options);
    router_statistics(rig.context, statistics, logits, expert, target, options.scores);
  }

  double loss() {
    route();
    const Tensor sum = rig.tensor({1});
    router_loss(rig.context, sum, statistics, 2, losses);
    return values_of(sum)[0] + testing::dot(weight, dweight);
  }

  Rig& rig;
  RouterOptions options;
  RouterLossOptions losses = {.balance = 0.7f, .z = 0.3f};
  Tensor logits, bias, expert, weight, dweight, target, statistics;
};

TEST_P(RouterTest, CountsOfEachSequenceTheTokensWithTargets) {
  LossRig x(rig, {});
  testing::set_values(x.logits, {std::log(2.0f),
                                 0,
                                 0,
                                 -99,
                                 0,
                                 std::log(2.0f),
                                 0,
                                 -99,  //
                                 9,
                                 9,
                                 9,
                                 9,
                                 0,
                                 0,
                                 std::log(2.0f),
                                 -99,  //
                                 0,
                                 0,
                                 std::log(2.0f),
                                 -99,
                                 5,
                                 5,
                                 5,
                                 5});
  testing::set_values(x.bias, {0.01f, 0, 0, 0});
  x.route();
  const std::vector<float> got = values_of(x.statistics);
  const float square = std::log(4.0f) * std::log(4.0f);
  const std::vector<float> expected = {2, 2, 0, 0, 0.75f, 0.75f, 0.5f, 0, 2, 2 * square,
                                       2, 0, 2, 0, 0.5f,  0.5f,  1.0f, 0, 2, 2 * square};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-6f) << i;
  }
  const Tensor sum = rig.tensor({1}, {10});
  router_loss(rig.context, sum, x.statistics, 2, {.balance = 1.0f, .z = 0.0f});
  // 4 / (2 * 2) of 2 * 0.75 + 2 * 0.75, and of 2 * 0.5 + 2 * 1.
  EXPECT_NEAR(values_of(sum)[0], 10 + 3 + 3, 1e-5f);
}

TEST_P(RouterTest, TheBalanceLossOfEqualSharesIsTheNumberOfTargets) {
  const Tensor statistics = rig.tensor({1, 6}, {3, 3, 1.5f, 1.5f, 3, 0});
  const Tensor sum = rig.tensor({1});
  router_loss(rig.context, sum, statistics, 2, {.balance = 1.0f, .z = 0.0f});
  EXPECT_NEAR(values_of(sum)[0], 3.0f, 1e-6f);
}

TEST_P(RouterTest, ASequenceWithoutTargetsHasNoLoss) {
  LossRig x(rig, {});
  testing::set_values(x.target, std::vector<float>(6, kIgnoredTarget));
  testing::set_values(x.dweight, std::vector<float>(12, 0.0f));
  EXPECT_EQ(x.loss(), 0.0);
  const Tensor gradient = rig.random({6, 4}, 1);
  route_backward(rig.context, gradient, {x.dweight, x.logits, x.expert, x.target, x.statistics},
                 x.options, x.losses, 1.0f);
  EXPECT_EQ(values_of(gradient), std::vector<float>(24, 0.0f));
}

TEST_P(RouterTest, BackwardMatchesCentralDifferences) {
  for (const RouterScores scores : {RouterScores::kSoftmax, RouterScores::kSigmoid}) {
    for (const bool normalise : {false, true}) {
      for (const RouterLossOptions& losses :
           {RouterLossOptions{}, {.balance = 0.7f, .z = 0.0f}, {.balance = 0.7f, .z = 0.3f}}) {
        LossRig x(rig, {.scores = scores, .normalise = normalise, .scale = 1.5f});
        x.losses = losses;
        x.route();
        for (const DType dtype : kActivationDTypes) {
          const Tensor gradient = rig.tensor({6, 4}, dtype);
          route_backward(rig.context, gradient,
                         {x.dweight, x.logits, x.expert, x.target, x.statistics}, x.options,
                         x.losses, 1.0f);
          testing::expect_central_differences(
              widened(rig, gradient), x.logits, [&] { return x.loss(); }, 1e-3f,
              2e-3 + 4.0 * static_cast<double>(rounding_of(dtype)));
        }
      }
    }
  }
}

// The loss scale is already in the gradient of the weights, and has to come to the losses.
TEST_P(RouterTest, ScalesTheLossesOwnGradient) {
  LossRig x(rig, {});
  testing::set_values(x.dweight, std::vector<float>(12, 0.0f));
  x.route();
  const RouterBackward inputs{x.dweight, x.logits, x.expert, x.target, x.statistics};
  const Tensor once = rig.tensor({6, 4}), scaled = rig.tensor({6, 4});
  route_backward(rig.context, once, inputs, x.options, x.losses, 1.0f);
  route_backward(rig.context, scaled, inputs, x.options, x.losses, 8.0f);
  std::vector<float> expected = values_of(once);
  for (float& value : expected) {
    value *= 8.0f;
  }
  EXPECT_EQ(values_of(scaled), expected);
}

TEST_P(RouterTest, CountsWhatIsAboveAnEqualShare) {
  const Tensor excess = rig.tensor({4}, {1, 1, 1, 1});
  count_excess(rig.context, excess, rig.ids({3, 2}, {0, 1, 0, 3, 0, 1}));
  EXPECT_EQ(values_of(excess), (std::vector<float>{2.5f, 1.5f, -0.5f, 0.5f}));
}

TEST(Router, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor logits = rig.tensor({6, 4}), weight = rig.tensor({6, 2}), bias = rig.tensor({4});
  const Tensor expert = rig.tensor({6, 2}, DType::kI32), target = rig.tensor({6}, DType::kI32);
  const Tensor statistics = rig.tensor({2, 10}), one = rig.tensor({1});
  rig.trace.cut();
  route_forward(rig.context, expert, weight, logits, bias, {});
  router_statistics(rig.context, statistics, logits, expert, target, RouterScores::kSoftmax);
  router_loss(rig.context, one, statistics, 2, {.balance = 1.0f, .z = 0.0f});
  route_backward(rig.context, logits, {weight, logits, expert, target, statistics}, {}, {}, 1.0f);
  count_excess(rig.context, bias, expert);
  const std::vector<BookedOp> expected = {{"route_forward", 144, 112, 96},
                                          {"router_statistics", 120, 168, 80},
                                          {"router_loss", 20, 80, 4},
                                          {"route_backward", 192, 192, 96},
                                          {"count_excess", 12, 64, 16}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
