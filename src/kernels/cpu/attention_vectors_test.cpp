// The power of two of every instruction set, against double precision.

#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <bit>
#include <cmath>
#include <limits>

#include "testing/test_support.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_vectors_test.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/attention_vectors-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {

float exact_exp2(float x) {
  return hn::GetLane(exp2<true>(hn::Set(kFloats, x)));
}
float rounded_exp2(float x) {
  return hn::GetLane(exp2<false>(hn::Set(kFloats, x)));
}

}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {
namespace {

using Function = float (*)(float);

struct Errors {
  double ulps = 0.0;
  double relative = 0.0;
};

Errors largest_errors(Function exact_exp2, Function rounded_exp2) {
  Errors errors;
  for (float x = -120.0f; x < 8.0f; x += 0.00137f) {
    const double expected = std::exp2(static_cast<double>(x));
    const auto nearest = static_cast<float>(expected);
    const auto ulp = static_cast<double>(
        std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest);
    const auto exact = static_cast<double>(exact_exp2(x));
    const auto rounded = static_cast<double>(rounded_exp2(x));
    errors.ulps = std::max(errors.ulps, std::abs(exact - expected) / ulp);
    errors.relative = std::max(errors.relative, std::abs(rounded / expected - 1.0));
  }
  return errors;
}

void check(Target target, Function exact_exp2, Function rounded_exp2) {
  if (!runs_on(target, detect_cpu_target())) {
    return;
  }
  SCOPED_TRACE(name_of(target));
  const Errors errors = largest_errors(exact_exp2, rounded_exp2);
  EXPECT_LT(errors.ulps, 1.5);
  EXPECT_LT(errors.relative, 5e-6);
  EXPECT_EQ(exact_exp2(0.0f), 1.0f);
  EXPECT_EQ(exact_exp2(-3.0f), 0.125f);
  EXPECT_EQ(exact_exp2(8.0f), 256.0f);
  EXPECT_EQ(exact_exp2(-1000.0f), 0.0f);
  EXPECT_EQ(exact_exp2(-std::numeric_limits<float>::infinity()), 0.0f);
  // The payload of a NaN must not count as an exponent.
  for (const uint32_t bits : {0x7FC00000u, 0x7FC00001u, 0xFFC001FFu, 0x7FFFFFFFu}) {
    EXPECT_TRUE(std::isnan(exact_exp2(std::bit_cast<float>(bits))));
  }
}

TEST(AttentionVectors, PowersOfTwoAreExactToAnUlp) {
#if defined(__x86_64__)
  check(Target::kCpuSimd, N_SSSE3::exact_exp2, N_SSSE3::rounded_exp2);
  check(Target::kCpuAvx2, N_AVX2::exact_exp2, N_AVX2::rounded_exp2);
  check(Target::kCpuAvx512, N_AVX3::exact_exp2, N_AVX3::rounded_exp2);
#else
  check(Target::kCpuSimd, HWY_STATIC_DISPATCH(exact_exp2), HWY_STATIC_DISPATCH(rounded_exp2));
#endif
}

}  // namespace
}  // namespace cadre::kernels::cpu
#endif
