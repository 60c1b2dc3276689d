// Attention of bf16 on machines with AVX512-BF16, which Highway does not know. One instruction
// multiplies 16 pairs by 16 pairs and adds both products of each to a float. Weights and gradients
// of scores are rounded to bf16 for it; the softmax and all sums are of floats.

// This file is for AVX-512 alone.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3 | HWY_AVX2 | HWY_SVE | HWY_SVE2)

#include "kernels/attention_backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_avx512_bf16.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3
#include <hwy/contrib/math/math-inl.h>

// From here on: what Highway defines above must not need these instructions.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512bf16"

#include "kernels/cpu/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Word i of 16: element i of one row of bf16 in its lower half, of the next row in its upper half.
HWY_INLINE __m512i pair_words(const void* even, const void* odd) {
  const __m512i lower =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(even)));
  const __m512i upper = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(odd)));
  return _mm512_or_si512(lower, _mm512_slli_epi32(upper, 16));
}

// Pairs of bf16 as the words of a product.
struct PairMath {
  using Element = Bf16;
  using Word = uint32_t;
  static constexpr int64_t kPerWord = 2;
  static constexpr bool kExact = false;

  static HWY_INLINE Vector multiply_add(Vector sum, Vector a, Vector b) {
    return Vector{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a.raw),
                                   reinterpret_cast<__m512bh>(b.raw))};
  }

  static void pack_rows(Word* to, int64_t width, const Bf16* from, int64_t from_row, int64_t rows,
                        int64_t D) {
    for (int64_t row = 0; row < rows; ++row) {
      if (row + kRowsAhead < rows) {
        prefetch_row(from + (row + kRowsAhead) * from_row, D);
      }
      auto* const line = reinterpret_cast<std::byte*>(to + row * (width / 2));
      std::memcpy(line, from + row * from_row, static_cast<size_t>(2 * D));
      std::memset(line + 2 * D, 0, static_cast<size_t>(2 * (width - D)));
    }
  }

  static void pack_pairs(Word* to, int64_t width, const Bf16* from, int64_t from_row, int64_t rows,
                         int64_t D) {
    for (int64_t row = 0; row < rows; row += 2) {
      const Bf16* const even = from + row * from_row;
      const Bf16* const odd = even + from_row;
      if (row + kRowsAhead + 1 < rows) {
        prefetch_row(even + kRowsAhead * from_row, D);
        prefetch_row(odd + kRowsAhead * from_row, D);
      }
      Word* const line = to + row / 2 * width;
      int64_t d = 0;
      for (; d + kLanes <= D && row + 1 < rows; d += kLanes) {
        _mm512_storeu_si512(line + d, pair_words(even + d, odd + d));
      }
      for (; d < width; ++d) {
        const uint32_t lower = d < D ? even[d].bits : 0u;
        const uint32_t upper = d < D && row + 1 < rows ? odd[d].bits : 0u;
        line[d] = lower | upper << 16;
      }
    }
  }

  // From what pack_rows() wrote; `rows` is even.
  static void pair_rows(Word* to, const Word* from, int64_t width, int64_t rows) {
    for (int64_t row = 0; row < rows; row += 2) {
      const Word* const even = from + row * (width / 2);
      for (int64_t d = 0; d < width; d += kLanes) {
        _mm512_storeu_si512(to + row / 2 * width + d,
                            pair_words(even + d / 2, even + (width + d) / 2));
      }
    }
  }

  static HWY_INLINE void store_weights(Word* to, Vector row) {
    const __m256bh rounded = _mm512_cvtneps_pbh(row.raw);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(rounded));
  }

  static HWY_INLINE void store_pair(Word* to, Vector even, Vector odd) {
    alignas(64) static constexpr uint16_t kInterleave[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512bh rounded = _mm512_cvtne2ps_pbh(odd.raw, even.raw);
    const __m512i words = _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave),
                                                   reinterpret_cast<__m512i>(rounded));
    _mm512_storeu_si512(to, words);
  }
};

}  // namespace

constexpr AttentionBackend kBackend = backend_of<PairMath>(Target::kCpuAvx512Bf16);

}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE && defined(__x86_64__)
namespace cadre::kernels::cpu {

const AttentionBackend kAttentionAvx512NativeBf16 = N_AVX3::kBackend;

}  // namespace cadre::kernels::cpu
#endif
