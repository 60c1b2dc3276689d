// Philox of base/random.h for many counters at once. Included once per instruction set, after
// <hwy/highway.h>, inside no namespace.

#if defined(CADRE_KERNELS_CPU_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_PHILOX_INL_H
#undef CADRE_KERNELS_CPU_PHILOX_INL_H
#else
#define CADRE_KERNELS_CPU_PHILOX_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "base/random.h"

// Not for the emulated vectors that Highway takes for x86-64's baseline.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace philox_vectors {

namespace hn = hwy::HWY_NAMESPACE;

using Words = HWY_FULL(uint32_t);
using WordVector = hn::Vec<Words>;
constexpr Words kWords;

struct WidePair {
  WordVector high;
  WordVector low;
};

// Products of 32-bit words in 64 bits.
HWY_INLINE WidePair wide_product(WordVector a, WordVector b) {
  constexpr HWY_FULL(uint64_t) kWide;
  const auto even = hn::MulEven(a, b);
  const auto a_odd = hn::BitCast(kWords, hn::ShiftRight<32>(hn::BitCast(kWide, a)));
  const auto odd = hn::MulEven(a_odd, b);
  return {
      .high = hn::OddEven(hn::BitCast(kWords, odd), hn::BitCast(kWords, hn::ShiftRight<32>(even))),
      .low = hn::OddEven(hn::BitCast(kWords, hn::ShiftLeft<32>(odd)), hn::BitCast(kWords, even))};
}

// The numbers of blocks, one in each lane.
struct Blocks {
  WordVector low;
  WordVector high;
};

// Blocks `count` further on.
HWY_INLINE Blocks operator+(const Blocks& blocks, uint32_t count) {
  const WordVector low = hn::Add(blocks.low, hn::Set(kWords, count));
  const auto wrapped = hn::Lt(low, blocks.low);
  return {.low = low,
          .high = hn::Add(blocks.high, hn::IfThenElseZero(wrapped, hn::Set(kWords, 1)))};
}

// Word w of every lane's block.
struct BlockWords {
  WordVector word0, word1, word2, word3;
};

HWY_INLINE BlockWords random_words(const RandomKey& key, const Blocks& blocks) {
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
  BlockWords counter{.word0 = blocks.low,
                     .word1 = blocks.high,
                     .word2 = hn::Set(kWords, low(key.stream)),
                     .word3 = hn::Set(kWords, high(key.stream))};
  uint32_t key_left = low(key.seed);
  uint32_t key_right = high(key.seed);
  for (int round = 0; round < 10; ++round) {
    const WidePair left = wide_product(counter.word0, hn::Set(kWords, 0xD2511F53));
    const WidePair right = wide_product(counter.word2, hn::Set(kWords, 0xCD9E8D57));
    counter = {.word0 = hn::Xor(hn::Xor(right.high, counter.word1), hn::Set(kWords, key_left)),
               .word1 = right.low,
               .word2 = hn::Xor(hn::Xor(left.high, counter.word3), hn::Set(kWords, key_right)),
               .word3 = left.low};
    key_left += 0x9E3779B9;
    key_right += 0xBB67AE85;
  }
  return counter;
}

}  // namespace philox_vectors

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
