// Dropout of attention's probabilities for one instruction set. A vector is one key's scores of
// several queries, so its words come from as many blocks; a block serves four keys.

#if defined(CADRE_KERNELS_CPU_ATTENTION_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_ATTENTION_DROPOUT_INL_H
#undef CADRE_KERNELS_CPU_ATTENTION_DROPOUT_INL_H
#else
#define CADRE_KERNELS_CPU_ATTENTION_DROPOUT_INL_H
#endif

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/float_vectors-inl.h"
#include "kernels/cpu/philox-inl.h"

// Not for the emulated vectors of x86-64's baseline: they are no vectors.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// What the queries of a block need to know.
struct BlockDropout {
  RandomKey key;
  uint32_t threshold;
  float scale;
  alignas(64) std::array<uint32_t, kBlock> low{};  // halves of the block of words of key 0
  alignas(64) std::array<uint32_t, kBlock> high{};
};

template <typename Task>
std::optional<BlockDropout> dropout_of(const Task& task, const HeadRows& rows, int64_t count) {
  if (task.options.dropout.probability == 0.0f) {
    return std::nullopt;
  }
  BlockDropout result{.key = task.options.dropout.key,
                      .threshold = dropout_threshold(task.options.dropout.probability),
                      .scale = dropout_scale(task.options)};
  for (int64_t row = 0; row < count; ++row) {
    const uint64_t block = dropout_block(task, rows.b, rows.h, rows.first + row);
    result.low[static_cast<size_t>(row)] = static_cast<uint32_t>(block);
    result.high[static_cast<size_t>(row)] = static_cast<uint32_t>(block >> 32);
  }
  return result;
}

// Zeroes the probabilities of kLanes queries, key after key from a multiple of 4 on.
class KeptKeys {
 public:
  static constexpr bool kDrops = true;

  HWY_INLINE KeptKeys(const BlockDropout& dropout, int64_t lane)
      : dropout_(dropout),
        blocks_{.low = hn::LoadU(philox_vectors::kWords, dropout.low.data() + lane),
                .high = hn::LoadU(philox_vectors::kWords, dropout.high.data() + lane)},
        threshold_(hn::Set(philox_vectors::kWords, dropout.threshold)) {}

  // Before the first of four keys.
  HWY_INLINE void begin(int64_t key) {
    const philox_vectors::BlockWords made =
        philox_vectors::random_words(dropout_.key, blocks_ + static_cast<uint32_t>(key / 4));
    hn::Store(made.word0, philox_vectors::kWords, words_.data());
    hn::Store(made.word1, philox_vectors::kWords, words_.data() + kLanes);
    hn::Store(made.word2, philox_vectors::kWords, words_.data() + 2 * kLanes);
    hn::Store(made.word3, philox_vectors::kWords, words_.data() + 3 * kLanes);
  }

  HWY_INLINE Vector keep(Vector value, int64_t key) const {
    const auto word = hn::Load(philox_vectors::kWords, words_.data() + key % 4 * kLanes);
    return hn::IfThenZeroElse(hn::RebindMask(kFloats, hn::Lt(word, threshold_)), value);
  }

 private:
  const BlockDropout& dropout_;
  philox_vectors::Blocks blocks_;
  philox_vectors::WordVector threshold_;
  alignas(64) std::array<uint32_t, 4 * kLanes> words_;
};

// Where nothing is dropped.
class AllKeys {
 public:
  static constexpr bool kDrops = false;

  HWY_INLINE void begin(int64_t) {}
  HWY_INLINE Vector keep(Vector value, int64_t) const { return value; }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
