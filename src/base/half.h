// Bf16 and F16: two-byte storage of a float. Arithmetic is done in float; only storing rounds, to
// the nearest value, ties to even (IEEE 754-2019, 4.3.1).

#pragma once

#include <bit>
#include <cstdint>

namespace cadre {

// The upper half of a float: 8 bits of exponent, 7 of mantissa.
struct Bf16 {
  uint16_t bits = 0;

  bool operator==(const Bf16&) const = default;
};

// IEEE binary16: 5 bits of exponent, 10 of mantissa; the largest finite value is 65504.
struct F16 {
  uint16_t bits = 0;

  bool operator==(const F16&) const = default;
};

constexpr float to_float(float value) {
  return value;
}

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

constexpr float to_float(F16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000u | (magnitude << 13));
  }
  if (magnitude >= 0x0400u) {  // normal: the exponent's bias is 15 there and 127 here
    return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t{127 - 15} << 23)));
  }
  // Subnormal: a multiple of 2^-24, which a float holds exactly.
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

template <typename T>
constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}

template <>
constexpr Bf16 from_float<Bf16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {  // NaN: rounding could turn it into infinity
    return {static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  }
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

template <>
constexpr F16 from_float<F16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto with_sign = [sign](uint32_t half) { return F16{static_cast<uint16_t>(sign | half)}; };
  if (magnitude > 0x7F800000u) {
    return with_sign(0x7E00u);
  }
  if (magnitude >= 0x477FF000u) {  // 65520 and above rounds to infinity
    return with_sign(0x7C00u);
  }
  if (magnitude >= 0x38800000u) {  // 2^-14: normal
    const uint32_t rebased = magnitude - (uint32_t{127 - 15} << 23);
    return with_sign((rebased + 0x0FFFu + ((rebased >> 13) & 1u)) >> 13);
  }
  // Subnormal: adding 0.5 makes the float unit round to a multiple of 2^-24 by itself.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return with_sign(std::bit_cast<uint32_t>(shifted) - 0x3F000000u);
}

}  // namespace cadre
