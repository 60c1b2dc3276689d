// What the vector kernels share: elements of any dtype as vectors of floats, and the exponential.
//
// Included once per instruction set, after <hwy/highway.h>, inside no namespace. Rows are bytes: a
// row may be written over another dtype's row, as long as what lies ahead is read first.

#if defined(CADRE_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef CADRE_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define CADRE_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

// Not for the emulated vectors that Highway takes for x86-64's baseline.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = HWY_FULL(float);
using Words = HWY_FULL(uint32_t);
using Halves = hn::Rebind<uint16_t, Floats>;
using Float16s = hn::Rebind<hwy::float16_t, Floats>;
using Vector = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr Words kWords;
constexpr Halves kHalves;
constexpr HWY_FULL(uint16_t) kWordHalves;
constexpr Float16s kFloat16s;
constexpr int64_t kLanes = HWY_LANES(float);

// How many lanes of a vector an element loop is at: all, or those left at the end of a row.
struct AllLanes {};
struct SomeLanes {
  int64_t count;
};

template <typename Element>
struct Codec;

template <>
struct Codec<float> {
  static HWY_INLINE Vector load(const std::byte* from) {
    return hn::LoadU(kFloats, reinterpret_cast<const float*>(from));
  }
  static HWY_INLINE void store(Vector value, std::byte* to) {
    hn::StoreU(value, kFloats, reinterpret_cast<float*>(to));
  }
};

template <>
struct Codec<Bf16> {
  static HWY_INLINE Vector load(const std::byte* from) {
    const auto halves = hn::LoadU(kHalves, reinterpret_cast<const uint16_t*>(from));
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(kWords, halves)));
  }
  // To nearest, ties to even; a NaN stays one.
  static HWY_INLINE void store(Vector value, std::byte* to) {
    const auto bits = hn::BitCast(kWords, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kWords, 1));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(kWords, 0x7FFF)), odd);
    const auto is_nan = hn::RebindMask(kWords, hn::IsNaN(value));
    const auto quiet = hn::Or(bits, hn::Set(kWords, 0x400000));
    const auto result = hn::BitCast(kWordHalves, hn::IfThenElse(is_nan, quiet, rounded));
    const auto upper = hn::LowerHalf(kHalves, hn::ConcatOdd(kWordHalves, result, result));
    hn::StoreU(upper, kHalves, reinterpret_cast<uint16_t*>(to));
  }
};

template <>
struct Codec<F16> {
  static HWY_INLINE Vector load(const std::byte* from) {
    return hn::PromoteTo(kFloats,
                         hn::LoadU(kFloat16s, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void store(Vector value, std::byte* to) {
    hn::StoreU(hn::DemoteTo(kFloat16s, value), kFloat16s, reinterpret_cast<hwy::float16_t*>(to));
  }
};

template <typename Element>
HWY_INLINE Vector load(const std::byte* row, int64_t index, AllLanes) {
  return Codec<Element>::load(row + index * static_cast<int64_t>(sizeof(Element)));
}

// The lanes beyond are 0.
template <typename Element>
HWY_INLINE Vector load(const std::byte* row, int64_t index, SomeLanes lanes) {
  alignas(64) std::byte padded[sizeof(Element) * kLanes] = {};
  std::memcpy(padded, row + index * static_cast<int64_t>(sizeof(Element)),
              static_cast<size_t>(lanes.count) * sizeof(Element));
  return Codec<Element>::load(padded);
}

// The lanes beyond are `filler`, which is the same in every lane.
template <typename Element>
HWY_INLINE Vector load_or(Vector, const std::byte* row, int64_t index, AllLanes lanes) {
  return load<Element>(row, index, lanes);
}
template <typename Element>
HWY_INLINE Vector load_or(Vector filler, const std::byte* row, int64_t index, SomeLanes lanes) {
  const auto inside = hn::FirstN(kFloats, static_cast<size_t>(lanes.count));
  return hn::IfThenElse(inside, load<Element>(row, index, lanes), filler);
}

template <typename Element>
HWY_INLINE void store(Vector value, std::byte* row, int64_t index, AllLanes) {
  Codec<Element>::store(value, row + index * static_cast<int64_t>(sizeof(Element)));
}

template <typename Element>
HWY_INLINE void store(Vector value, std::byte* row, int64_t index, SomeLanes lanes) {
  alignas(64) std::byte padded[sizeof(Element) * kLanes];
  Codec<Element>::store(value, padded);
  std::memcpy(row + index * static_cast<int64_t>(sizeof(Element)), padded,
              static_cast<size_t>(lanes.count) * sizeof(Element));
}

// The same for arrays of floats: weights, sums.
template <typename Lanes>
HWY_INLINE Vector load(const float* values, int64_t index, Lanes lanes) {
  return load<float>(reinterpret_cast<const std::byte*>(values), index, lanes);
}
template <typename Lanes>
HWY_INLINE void store(Vector value, float* values, int64_t index, Lanes lanes) {
  store<float>(value, reinterpret_cast<std::byte*>(values), index, lanes);
}

// Calls body(index, lanes) for every vector of a row of `width` elements.
template <typename Body>
HWY_INLINE void for_each_vector(int64_t width, const Body& body) {
  int64_t index = 0;
  for (; index + kLanes <= width; index += kLanes) {
    body(index, AllLanes{});
  }
  if (index < width) {
    body(index, SomeLanes{width - index});
  }
}

HWY_INLINE float sum_of(Vector value) {
  return hn::GetLane(hn::SumOfLanes(kFloats, value));
}

// e^x within 1.1 units in the last place, up to 88.37; beyond it is infinite. Below -87.7 it is 0.
// A NaN stays one.
//
//   x = n log(2) + r, |r| <= log(2)/2;  e^x = 2^n (1 + r + r^2 q(r))
//
// q interpolates (e^r - 1 - r) / r^2 in the Chebyshev points of the interval.
HWY_INLINE Vector exponential(Vector x) {
  // In this order of operands a NaN gets through.
  const Vector inside = hn::Max(hn::Set(kFloats, -88.0f), hn::Min(hn::Set(kFloats, 89.0f), x));
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits.
  const Vector magic = hn::Set(kFloats, 12582912.0f);
  const Vector shifted = hn::MulAdd(inside, hn::Set(kFloats, 1.44269504088896341f), magic);
  const Vector n = hn::Sub(shifted, magic);
  // log(2) in two parts; n times the first is exact.
  Vector r = hn::NegMulAdd(n, hn::Set(kFloats, 0.693359375f), inside);
  r = hn::NegMulAdd(n, hn::Set(kFloats, -2.12194440054690583e-4f), r);
  Vector q = hn::MulAdd(hn::Set(kFloats, 0.0013926213466332444f), r,
                        hn::Set(kFloats, 0.008363202971575855f));
  q = hn::MulAdd(q, r, hn::Set(kFloats, 0.04166655443768594f));
  q = hn::MulAdd(q, r, hn::Set(kFloats, 0.16666576845993977f));
  q = hn::MulAdd(q, r, hn::Set(kFloats, 0.5f));
  const Vector p = hn::Add(hn::Set(kFloats, 1.0f), hn::MulAdd(hn::Mul(r, r), q, r));
  // n = -127 makes 0 and n = 128 infinity.
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(kWords, shifted));
  return hn::Mul(p, hn::BitCast(kFloats, hn::Add(exponent, hn::Set(kWords, 0x3F800000))));
}

//   1 / (1 + e^-x)
HWY_INLINE Vector sigmoid(Vector x) {
  const Vector one = hn::Set(kFloats, 1.0f);
  return hn::Div(one, hn::Add(one, exponential(hn::Neg(x))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target include guard
