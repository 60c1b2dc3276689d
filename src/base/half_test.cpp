#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cadre {
namespace {

// Every F16 there is survives the way to float and back.
TEST(Half, EveryF16IsAFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 value{static_cast<uint16_t>(bits)};
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(from_float<F16>(to_float(value)))));
    } else {
      EXPECT_EQ(from_float<F16>(to_float(value)), value) << bits;
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  EXPECT_EQ(from_float<Bf16>(1.0f + 0x1p-8f).bits, 0x3F80);  // a tie: down to even
  EXPECT_EQ(from_float<Bf16>(1.0f + 0x1p-8f + 0x1p-16f).bits, 0x3F81);
  EXPECT_EQ(from_float<Bf16>(1.0f + 3 * 0x1p-8f).bits, 0x3F82);  // a tie: up to even
  EXPECT_EQ(from_float<F16>(1.0f + 0x1p-11f).bits, 0x3C00);
  EXPECT_EQ(from_float<F16>(1.0f + 3 * 0x1p-11f).bits, 0x3C02);
  EXPECT_EQ(from_float<F16>(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(from_float<F16>(65520.0f).bits, 0x7C00);
  EXPECT_EQ(from_float<F16>(0x1p-25f).bits, 0x0000);  // a tie between 0 and 2^-24
  EXPECT_EQ(from_float<F16>(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(from_float<F16>(-0x1p-24f).bits, 0x8001);
}

TEST(Half, KeepsInfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(from_float<Bf16>(-kInfinity)), -kInfinity);
  EXPECT_EQ(to_float(from_float<F16>(kInfinity)), kInfinity);
  EXPECT_TRUE(std::isnan(to_float(from_float<Bf16>(std::nanf("")))));
  EXPECT_TRUE(std::isnan(to_float(from_float<F16>(std::nanf("")))));
  // Only low mantissa bits set: cutting them off would give infinity.
  EXPECT_TRUE(std::isnan(to_float(from_float<Bf16>(std::bit_cast<float>(0x7F800001u)))));
}

}  // namespace
}  // namespace cadre
