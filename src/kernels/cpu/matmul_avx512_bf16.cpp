// Panels of bf16 pairs on machines with AVX512-BF16, which Highway does not know. One instruction
// multiplies 16 pairs by 16 pairs and adds both products of each to a float.

#include "kernels/cpu/matmul_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

// After the includes: what they define must not need these instructions.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512bf16")
#endif

namespace cadre::kernels::cpu {
namespace {

constexpr int64_t kRows = 14;
constexpr int64_t kVectors = 2;
constexpr int64_t kLanes = 16;

__m512bh as_pairs(__m512 vector) {
  return reinterpret_cast<__m512bh>(vector);
}

// A pair that may begin at any bf16.
__m512bh broadcast(const std::byte* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

template <int64_t kHeight>
void multiply_rows(const PanelProduct& product) {
  __m512 sums[kHeight][kVectors];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kHeight; ++i) {
    const std::byte* const c = product.c + i * product.c_row_bytes;
#pragma GCC unroll 4
    for (int64_t j = 0; j < kVectors; ++j) {
      sums[i][j] = _mm512_loadu_ps(product.start + j * kLanes);
    }
    _mm_prefetch(reinterpret_cast<const char*>(c), _MM_HINT_T0);
    if (product.output != Output::kOverwriteBf16) {
      _mm_prefetch(reinterpret_cast<const char*>(c + 64), _MM_HINT_T0);
    }
  }
  const std::byte* a = product.a;
  const auto* b = reinterpret_cast<const float*>(product.b);
  const std::byte* soon = product.soon;
  for (int64_t u = 0; u < product.units;) {
    int64_t end = product.units;
    if (soon != nullptr) {
      end = std::min(u + kUnitsOfLine, end);
#pragma GCC unroll 16
      for (int64_t i = 0; i < kUnitsOfLine; ++i) {
        __builtin_prefetch(soon + i * product.soon_step_bytes, 0, 2);
      }
      soon += product.soon_stride_bytes;
    }
    for (; u < end; ++u) {
      const __m512bh left = as_pairs(_mm512_loadu_ps(b));
      const __m512bh right = as_pairs(_mm512_loadu_ps(b + kLanes));
#pragma GCC unroll 16
      for (int64_t i = 0; i < kHeight; ++i) {
        const __m512bh row = broadcast(a + i * product.a_row_bytes);
        sums[i][0] = _mm512_dpbf16_ps(sums[i][0], row, left);
        sums[i][1] = _mm512_dpbf16_ps(sums[i][1], row, right);
      }
      a += product.a_unit_bytes;
      b += kVectors * kLanes;
    }
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < kHeight; ++i) {
    std::byte* const c = product.c + i * product.c_row_bytes;
    if (product.output == Output::kOverwriteBf16) {
      _mm512_storeu_si512(c,
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(sums[i][1], sums[i][0])));
      continue;
    }
    auto* const floats = reinterpret_cast<float*>(c);
    if (product.output == Output::kAddF32) {
      sums[i][0] = _mm512_add_ps(_mm512_loadu_ps(floats), sums[i][0]);
      sums[i][1] = _mm512_add_ps(_mm512_loadu_ps(floats + kLanes), sums[i][1]);
    }
    _mm512_storeu_ps(floats, sums[i][0]);
    _mm512_storeu_ps(floats + kLanes, sums[i][1]);
  }
}

template <size_t... kIndex>
constexpr auto heights(std::index_sequence<kIndex...>) {
  return std::array{&multiply_rows<static_cast<int64_t>(kIndex) + 1>...};
}

}  // namespace

void multiply_pairs_avx512(const PanelProduct& product) {
  static constexpr auto kHeights = heights(std::make_index_sequence<size_t{kRows}>());
  kHeights[static_cast<size_t>(product.rows - 1)](product);
}

void pack_pairs_across_avx512(std::byte* packed, int64_t width, const Lines& source) {
  // Word 2 i of a result is word i of one line, word 2 i + 1 is word i of the next.
  alignas(64) static constexpr std::array<uint16_t, 64> kInterleaved = [] {
    std::array<uint16_t, 64> words{};
    for (uint16_t i = 0; i < 32; ++i) {
      words[2u * i] = i;
      words[2u * i + 1u] = static_cast<uint16_t>(32 + i);
    }
    return words;
  }();
  const __m512i low = _mm512_load_si512(kInterleaved.data());
  const __m512i high = _mm512_load_si512(kInterleaved.data() + 32);
  constexpr int64_t kLinesAhead = 16;
  for (int64_t k = 0; k < source.lines; k += 2, packed += width * kUnitBytes) {
    const std::byte* const line = source.data + k * source.line_bytes;
    const bool has_next = k + 1 < source.lines;
    // Each line may lie in a page of its own, which the processor does not foresee.
    const std::byte* const ahead = line + kLinesAhead * source.line_bytes;
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + 2 * source.length - 1);
    __builtin_prefetch(ahead + source.line_bytes);
    __builtin_prefetch(ahead + source.line_bytes + 2 * source.length - 1);
    const std::byte* const next = line + source.line_bytes;
    int64_t i = 0;
    for (; has_next && i + 2 * kLanes <= source.length; i += 2 * kLanes) {
      const __m512i first = _mm512_loadu_si512(line + 2 * i);
      const __m512i second = _mm512_loadu_si512(next + 2 * i);
      std::byte* const to = packed + i * kUnitBytes;
      _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, low, second));
      _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi16(first, high, second));
    }
    // Not wider than need be: what is masked off would be fetched from memory all the same.
    for (; i < source.length; i += kLanes) {
      const auto there = static_cast<__mmask16>((1u << std::min(source.length - i, kLanes)) - 1u);
      const __m256i first = _mm256_maskz_loadu_epi16(there, line + 2 * i);
      const __m256i second =
          _mm256_maskz_loadu_epi16(has_next ? there : __mmask16{0}, next + 2 * i);
      _mm512_storeu_si512(packed + i * kUnitBytes,
                          _mm512_permutex2var_epi16(_mm512_castsi256_si512(first), low,
                                                    _mm512_castsi256_si512(second)));
    }
  }
}

}  // namespace cadre::kernels::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
