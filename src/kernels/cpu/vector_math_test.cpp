// The exponential against double, over its whole range, in every instruction set.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "device/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_math_test.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

void exponentials(std::vector<float>& values) {
  auto* const row = reinterpret_cast<std::byte*>(values.data());
  for_each_vector(static_cast<int64_t>(values.size()), [&](int64_t i, auto lanes) HWY_ATTR {
    store<float>(exponential(load<float>(row, i, lanes)), row, i, lanes);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {
namespace {

using Exponentials = void (*)(std::vector<float>& values);

std::vector<Exponentials> tested_exponentials() {
  std::vector<Exponentials> tested;
#if defined(__x86_64__)
  if (runs_on(Target::kCpuAvx2, detect_cpu_target())) {
    tested.push_back(N_AVX2::exponentials);
  }
  if (runs_on(Target::kCpuAvx512, detect_cpu_target())) {
    tested.push_back(N_AVX3::exponentials);
  }
#else
  tested.push_back(HWY_STATIC_DISPATCH(exponentials));
#endif
  return tested;
}

TEST(VectorMath, TheExponentialIsWithinAboutAUnitInTheLastPlace) {
  for (const Exponentials exponentials : tested_exponentials()) {
    std::vector<float> inputs;
    for (float x = -87.33f; x < 88.37f; x += 0.00071f) {
      inputs.push_back(x);
    }
    for (float x = 1e-8f; x < 0.1f; x *= 1.01f) {
      inputs.push_back(x);
      inputs.push_back(-x);
    }
    std::vector<float> results = inputs;
    exponentials(results);
    double worst = 0.0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double truth = std::exp(static_cast<double>(inputs[i]));
      const float nearest = static_cast<float>(truth);
      const double unit = static_cast<double>(std::nextafter(nearest, HUGE_VALF) - nearest);
      worst = std::max(worst, std::abs(static_cast<double>(results[i]) - truth) / unit);
    }
    EXPECT_LT(worst, 1.1);
  }
}

TEST(VectorMath, TheExponentialOfExtremesIsExact) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Exponentials exponentials : tested_exponentials()) {
    std::vector<float> values = {0.0f,
                                 -0.0f,
                                 -87.7f,
                                 -1e30f,
                                 88.4f,
                                 1e30f,
                                 -infinity,
                                 infinity,
                                 -1e9f,
                                 -3.4e38f,
                                 std::numeric_limits<float>::quiet_NaN()};
    exponentials(values);
    const std::vector<float> expected = {1, 1, 0, 0, infinity, infinity, 0, infinity, 0, 0};
    EXPECT_EQ(std::vector<float>(values.begin(), values.end() - 1), expected);
    EXPECT_TRUE(std::isnan(values.back()));
  }
}

}  // namespace
}  // namespace cadre::kernels::cpu
#endif
