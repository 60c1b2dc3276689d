// Panels of bf16 pairs on machines with AMX, which Highway does not know. One instruction
// multiplies a tile of 16 rows of 16 pairs by one of 16 units of 16 columns, and adds to 16 x 16
// floats. (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.)

#include "kernels/cpu/matmul_panels.h"

#if defined(__x86_64__)

// GCC 12's own intrinsics read a vector that they leave undefined on purpose (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

// After the includes: what they define must not need these instructions.
#if defined(__clang__)
#pragma clang attribute push(                                                          \
    __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512bf16")
#endif

namespace cadre::kernels::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileUnits = 16;
constexpr int64_t kLanes = 16;  // columns of a tile
constexpr int64_t kColumns = 2 * kLanes;
constexpr int64_t kPairRows = 14;  // of a panel of multiply_pairs_avx512

// What LDTILECFG reads.
struct TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

// Tiles 0 to 3 are sums (upper left, upper right, lower left, lower right), 4 and 5 the upper and
// the lower rows of A, 6 and 7 the left and the right columns of B. To configure is dear, so a
// thread does it only when the height of its panels changes. (Threads keep their tiles to
// themselves.)
void configure(int64_t rows) {
  thread_local int64_t configured_rows = 0;
  if (configured_rows == rows) {
    return;
  }
  TileConfiguration configuration;
  const auto upper = static_cast<uint8_t>(std::min(rows, kTileRows));
  const auto lower = static_cast<uint8_t>(std::max<int64_t>(rows - kTileRows, 1));
  const std::array<uint8_t, 8> heights{upper, upper, lower,      lower,
                                       upper, lower, kTileUnits, kTileUnits};
  for (size_t tile = 0; tile < heights.size(); ++tile) {
    configuration.row_bytes[tile] = kLanes * kUnitBytes;
    configuration.rows[tile] = heights[tile];
  }
  _tile_loadconfig(&configuration);
  configured_rows = rows;
}

void ask_for(const PanelProduct& product, int64_t step) {
  const std::byte* const first = product.soon + step * product.soon_stride_bytes;
  for (int64_t i = 0; i < product.rows; ++i) {
    __builtin_prefetch(first + i * product.soon_step_bytes, 0, 2);
  }
}

// Every row of sums begins as `start`: rows that are zero bytes apart.
void multiply_upper(const PanelProduct& product, std::byte* c, int64_t c_row_bytes) {
  _tile_loadd(0, product.start, 0);
  _tile_loadd(1, product.start + kLanes, 0);
  const std::byte* b = product.b;
  for (int64_t step = 0; step < product.units / kTileUnits; ++step) {
    if (product.soon != nullptr) {
      ask_for(product, step);
    }
    _tile_loadd(4, product.a + step * 64, product.a_row_bytes);
    _tile_loadd(6, b, kColumns * kUnitBytes);
    _tile_loadd(7, b + 64, kColumns * kUnitBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    b += kTileUnits * kColumns * kUnitBytes;
  }
  _tile_stored(0, c, c_row_bytes);
  _tile_stored(1, c + 64, c_row_bytes);
}

void multiply_both(const PanelProduct& product, std::byte* c, int64_t c_row_bytes) {
  _tile_loadd(0, product.start, 0);
  _tile_loadd(1, product.start + kLanes, 0);
  _tile_loadd(2, product.start, 0);
  _tile_loadd(3, product.start + kLanes, 0);
  const std::byte* a = product.a;
  const std::byte* const lower_a = product.a + kTileRows * product.a_row_bytes;
  const std::byte* b = product.b;
  for (int64_t step = 0; step < product.units / kTileUnits; ++step) {
    if (product.soon != nullptr) {
      ask_for(product, step);
    }
    _tile_loadd(6, b, kColumns * kUnitBytes);
    _tile_loadd(4, a + step * 64, product.a_row_bytes);
    _tile_loadd(7, b + 64, kColumns * kUnitBytes);
    _tile_loadd(5, lower_a + step * 64, product.a_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    b += kTileUnits * kColumns * kUnitBytes;
  }
  std::byte* const lower_c = c + kTileRows * c_row_bytes;
  _tile_stored(0, c, c_row_bytes);
  _tile_stored(1, c + 64, c_row_bytes);
  _tile_stored(2, lower_c, c_row_bytes);
  _tile_stored(3, lower_c + 64, c_row_bytes);
}

// The units of `product` from `first` on, by the instruction below this one on the ladder.
void multiply_rest(const PanelProduct& product, int64_t first) {
  for (int64_t row = 0; row < product.rows; row += kPairRows) {
    PanelProduct part = product;
    part.a += row * product.a_row_bytes + first * product.a_unit_bytes;
    part.b += first * kColumns * kUnitBytes;
    part.c += row * product.c_row_bytes;
    part.units -= first;
    part.rows = std::min(kPairRows, product.rows - row);
    part.soon = nullptr;
    multiply_pairs_avx512(part);
  }
}

// Rounded, or added to what is there.
void finish_rows(const PanelProduct& product, const float* sums) {
  for (int64_t row = 0; row < product.rows; ++row, sums += kColumns) {
    std::byte* const c = product.c + row * product.c_row_bytes;
    const __m512 left = _mm512_load_ps(sums);
    const __m512 right = _mm512_load_ps(sums + kLanes);
    if (product.output == Output::kOverwriteBf16) {
      _mm512_storeu_si512(c, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(right, left)));
    } else {
      _mm512_storeu_ps(c, _mm512_add_ps(_mm512_loadu_ps(c), left));
      _mm512_storeu_ps(c + 64, _mm512_add_ps(_mm512_loadu_ps(c + 64), right));
    }
  }
}

void multiply_units(const PanelProduct& product, std::byte* c, int64_t c_row_bytes) {
  const int64_t tiled = product.units / kTileUnits * kTileUnits;
  PanelProduct rest = product;
  rest.c = c;
  rest.c_row_bytes = c_row_bytes;
  rest.output = Output::kOverwriteF32;
  if (tiled > 0) {
    configure(product.rows);
    (product.rows > kTileRows ? multiply_both : multiply_upper)(product, c, c_row_bytes);
    static constexpr float kZeros[kColumns] = {};
    rest.start = kZeros;
    rest.output = Output::kAddF32;
  }
  if (tiled < product.units) {
    multiply_rest(rest, tiled);
  }
}

// Units of four bytes: 16 lines of 16 become 16 columns.
void transpose(__m512i (&lines)[16]) {
  __m512i pairs[16];
  for (size_t i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(lines[i], lines[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(lines[i], lines[i + 1]);
  }
  __m512i fours[16];  // of lines 4 i to 4 i + 3: column j of each block of 128 bits
  for (size_t i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (size_t j = 0; j < 4; ++j) {
    const __m512i even_low = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0x88);
    const __m512i odd_high = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0xdd);
    lines[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    lines[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    lines[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    lines[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

// Up to 16 elements of two lines as pairs; what is not there is zero.
__m512i pairs_of(const Lines& source, int64_t k, int64_t first) {
  const auto there = static_cast<__mmask16>((1u << std::min(source.length - first, kLanes)) - 1u);
  const std::byte* const line = source.data + k * source.line_bytes + 2 * first;
  const __mmask16 next_there = k + 1 < source.lines ? there : __mmask16{0};
  const __m512i even = _mm512_cvtepu16_epi32(
      k < source.lines ? _mm256_maskz_loadu_epi16(there, line) : _mm256_setzero_si256());
  const __m512i odd =
      _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(next_there, line + source.line_bytes));
  return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}

}  // namespace

void multiply_pairs_amx(const PanelProduct& product) {
  if (product.output == Output::kOverwriteF32) {
    multiply_units(product, product.c, product.c_row_bytes);
    return;
  }
  alignas(64) float sums[2 * kTileRows * kColumns];
  multiply_units(product, reinterpret_cast<std::byte*>(sums), kColumns * kUnitBytes);
  finish_rows(product, sums);
}

void turn_pairs_amx(std::byte* packed, int64_t packed_line_bytes, const Lines& source) {
  constexpr int64_t kLinesAhead = 2 * kTileUnits;
  for (int64_t k = 0; k < source.lines; k += 2 * kTileUnits) {
    for (int64_t ahead = 0; ahead < 2 * kTileUnits; ++ahead) {
      __builtin_prefetch(source.data + (k + kLinesAhead + ahead) * source.line_bytes);
    }
    const int64_t units = std::min((source.lines - k + 1) / 2, kTileUnits);
    const auto there = static_cast<__mmask16>((1u << units) - 1u);
    for (int64_t first = 0; first < source.length; first += kLanes) {
      __m512i lines[16];
      for (int64_t unit = 0; unit < kTileUnits; ++unit) {
        lines[unit] = pairs_of(source, k + 2 * unit, first);
      }
      transpose(lines);
      const int64_t rows = std::min(source.length - first, kLanes);
      std::byte* to = packed + first * packed_line_bytes + k / 2 * kUnitBytes;
      for (int64_t row = 0; row < rows; ++row, to += packed_line_bytes) {
        _mm512_mask_storeu_epi32(to, there, lines[row]);
      }
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
