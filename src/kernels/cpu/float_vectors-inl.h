// Vectors of floats for one instruction set, loaded from and stored as any of our dtypes. Included
// once per instruction set.

#if defined(CADRE_KERNELS_CPU_FLOAT_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_FLOAT_VECTORS_INL_H
#undef CADRE_KERNELS_CPU_FLOAT_VECTORS_INL_H
#else
#define CADRE_KERNELS_CPU_FLOAT_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/half.h"

HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = HWY_FULL(float);
using Ints = hn::Rebind<int32_t, Floats>;
using Vector = hn::Vec<Floats>;
constexpr Floats kFloats;
constexpr Ints kInts;
constexpr int64_t kLanes = HWY_LANES(float);

// Lanes of `tag` elements as floats, and back, rounded to nearest even.
template <typename Tag>
HWY_INLINE hn::Vec<Tag> load_floats(Tag tag, const float* from) {
  return hn::LoadU(tag, from);
}
template <typename Tag>
HWY_INLINE hn::Vec<Tag> load_floats(Tag tag, const Bf16* from) {
  const hn::Rebind<uint16_t, Tag> halves;
  const hn::Rebind<uint32_t, Tag> words;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(tag, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}
template <typename Tag>
HWY_INLINE hn::Vec<Tag> load_floats(Tag tag, const F16* from) {
  const hn::Rebind<hwy::float16_t, Tag> halves;
  return hn::PromoteTo(tag, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <typename Tag>
HWY_INLINE void store_floats(hn::Vec<Tag> value, Tag tag, float* to) {
  hn::StoreU(value, tag, to);
}
template <typename Tag>
HWY_INLINE void store_floats(hn::Vec<Tag> value, Tag, Bf16* to) {
  const hn::Rebind<uint16_t, Tag> halves;
  const hn::Rebind<uint32_t, Tag> words;
  const hn::Rebind<int32_t, Tag> ints;
  const auto bits = hn::BitCast(words, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(words, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFF))));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto result = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(words, 0x40)), rounded);
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(ints, result)), halves,
             reinterpret_cast<uint16_t*>(to));
}
template <typename Tag>
HWY_INLINE void store_floats(hn::Vec<Tag> value, Tag, F16* to) {
  const hn::Rebind<hwy::float16_t, Tag> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(to));
}

// Calls body(tag, i) for vectors that together cover [0, count): whole ones, then ever narrower.
template <typename Body>
HWY_INLINE void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    body(kFloats, i);
  }
  if constexpr (kLanes > 8) {
    if (i + 8 <= count) {
      body(hn::CappedTag<float, 8>(), i);
      i += 8;
    }
  }
  if constexpr (kLanes > 4) {
    if (i + 4 <= count) {
      body(hn::CappedTag<float, 4>(), i);
      i += 4;
    }
  }
  for (; i < count; ++i) {
    body(hn::CappedTag<float, 1>(), i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
