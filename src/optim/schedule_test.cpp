#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "optim/loss_scale.h"

namespace cadre::optim {
namespace {

// 10 steps, 2 of warm-up, linear to 0 over the other 8: halves, then eighths.
TEST(FieldCases, K1_WarmUpReachesThePeakAndDecayHasNoOffByOne) {
  const ScheduleSpec spec{
      .kind = ScheduleKind::kLinear, .learning_rate = 1.0, .min_lr_ratio = 0.0, .warmup_steps = 2};
  EXPECT_EQ(learning_rate_at(spec, 0, 10), 0.5);
  EXPECT_EQ(learning_rate_at(spec, 1, 10), 1.0);
  for (int64_t step = 2; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_at(spec, step, 10), static_cast<double>(10 - step) / 8.0);
  }
  const ScheduleSpec stable{.kind = ScheduleKind::kWarmupStableDecay,
                            .learning_rate = 1.0,
                            .min_lr_ratio = 0.0,
                            .warmup_steps = 2,
                            .decay_steps = 0};
  EXPECT_EQ(learning_rate_at(stable, 9, 10), 1.0);  // a decay of 0 steps divides by nothing
}

// The rates that the golden models were trained with: 3 steps up, cosine to a tenth.
TEST(FieldCases, K2_TheRateIsAClosedFormOfTheStep) {
  const ScheduleSpec spec{
      .kind = ScheduleKind::kCosine, .learning_rate = 1e-3, .min_lr_ratio = 0.1, .warmup_steps = 3};
  for (int64_t step = 9; step >= 0; --step) {  // any order: nothing is carried along
    const auto s = static_cast<double>(step);
    const double expected =
        step < 3 ? 1e-3 * (s + 1) / 3
                 : 1e-3 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * (s - 3) / 7)));
    EXPECT_DOUBLE_EQ(learning_rate_at(spec, step, 10), expected) << step;
  }
}

TEST(FieldCases, K3_CosineEndsInItsFloorAndStaysThere) {
  const ScheduleSpec spec{.kind = ScheduleKind::kCosine,
                          .learning_rate = 2.0,
                          .min_lr_ratio = 0.25,
                          .warmup_ratio = 0.03};
  EXPECT_EQ(warmup_steps_of(spec, 100), 3);
  EXPECT_EQ(learning_rate_at(spec, 100, 100), 0.5);
  EXPECT_EQ(learning_rate_at(spec, 250, 100), 0.5);
}

TEST(Schedule, HoldsThePeakUntilTheDecayBegins) {
  const ScheduleSpec spec{.kind = ScheduleKind::kWarmupStableDecay,
                          .learning_rate = 1.0,
                          .min_lr_ratio = 0.2,
                          .warmup_steps = 1,
                          .decay_ratio = 0.4};
  EXPECT_EQ(learning_rate_at(spec, 5, 10), 1.0);
  EXPECT_EQ(learning_rate_at(spec, 6, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(spec, 9, 10), 0.2 + 0.8 / 4);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterAWindow) {
  LossScale scale(1024.0, 3);
  EXPECT_TRUE(scale.update(true));
  EXPECT_EQ(scale.value(), 512.0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(scale.update(false));
  }
  EXPECT_EQ(scale.value(), 1024.0);
  EXPECT_EQ(scale.good_steps(), 0);
}

// 65504 is the largest f16: a seed of 65536 for each token would overflow with the first of them.
TEST(LossScale, SeedsTheSumOverTokensByAPowerOfTwo) {
  EXPECT_EQ(LossScale(65536.0, 3).seed(1), 65536.0f);
  EXPECT_EQ(LossScale(65536.0, 3).seed(48), 2048.0f);
  EXPECT_EQ(LossScale(1.0, 3).seed(64), 0.015625f);
}

TEST(FieldCases, J1_AnOverflowAtTheFloorIsNoOrdinaryOne) {
  LossScale scale(2.0, 100);
  EXPECT_TRUE(scale.update(true));
  EXPECT_FALSE(scale.update(true));
  EXPECT_EQ(scale.value(), 1.0);
}

}  // namespace
}  // namespace cadre::optim
