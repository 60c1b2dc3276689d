// Copies, sums and dropout in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise_shared.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"
#include "kernels/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <typename To, typename From>
void convert_rows(Context& context, Tensor y, ConstTensor x) {
  const bool packed = all_packed({y, x});
  const Rows y_rows = elements_of(y, packed);
  const ConstRows x_rows = elements_of(x, packed);
  const RowTiles tiles = row_tiles(x_rows.count(), x_rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      std::byte* const to = y_rows.row(t);
      const std::byte* const from = x_rows.row(t);
      for_each_vector(x_rows.width(t), [&](int64_t d, auto lanes) HWY_ATTR {
        store<To>(load<From>(from, d, lanes), to, d, lanes);
      });
    }
  });
}

void convert(Context& context, Tensor y, ConstTensor x) {
  with_element(y.dtype, [&]<typename To>(To) {
    with_element(x.dtype, [&]<typename From>(From) { convert_rows<To, From>(context, y, x); });
  });
}

template <typename Element>
void add_rows(Context& context, Tensor y, ConstTensor a, ConstTensor b) {
  const bool packed = all_packed({y, a, b});
  const Rows y_rows = elements_of(y, packed);
  const ConstRows a_rows = elements_of(a, packed);
  const ConstRows b_rows = elements_of(b, packed);
  const RowTiles tiles = row_tiles(y_rows.count(), y_rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      std::byte* const y_row = y_rows.row(t);
      const std::byte* const a_row = a_rows.row(t);
      const std::byte* const b_row = b_rows.row(t);
      for_each_vector(y_rows.width(t), [&](int64_t d, auto lanes) HWY_ATTR {
        store<Element>(hn::Add(load<Element>(a_row, d, lanes), load<Element>(b_row, d, lanes)),
                       y_row, d, lanes);
      });
    }
  });
}

void add(Context& context, Tensor y, ConstTensor a, ConstTensor b) {
  with_element(y.dtype, [&]<typename Element>(Element) { add_rows<Element>(context, y, a, b); });
}

template <typename Element>
void column_sum_rows(Context& context, Tensor sum_D, ConstTensor x_TD, float* tile_sums) {
  const ConstRows rows(x_TD);
  const int64_t width = rows.width(0);
  const RowTiles tiles = summed_tiles(rows.count(), width);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    float* const sums = tile_sums + tile * width;
    std::fill_n(sums, width, 0.0f);
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const x = rows.row(t);
      for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
        store(hn::Add(load(sums, d, lanes), load<Element>(x, d, lanes)), sums, d, lanes);
      });
    }
  });
  add_tile_sums(sum_D, tile_sums, tiles);
}

void column_sum_add(Context& context, Tensor sum_D, ConstTensor x_TD, std::byte* workspace) {
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    column_sum_rows<Element>(context, sum_D, x_TD, reinterpret_cast<float*>(workspace));
  });
}

// The words of blocks [first, first + kLanes) of `key`, as base/random.h has them.
void philox_words(uint32_t* words, const RandomKey& key, uint64_t first) {
  const auto low = hn::Set(kWords, static_cast<uint32_t>(first));
  const auto high = hn::Set(kWords, static_cast<uint32_t>(first >> 32));
  const auto block = hn::Add(low, hn::Iota(kWords, 0));
  const auto carry = hn::IfThenElseZero(hn::Lt(block, low), hn::Set(kWords, 1));
  const philox_vectors::BlockWords made =
      philox_vectors::random_words(key, {.low = block, .high = hn::Add(high, carry)});
  hn::StoreInterleaved4(made.word0, made.word1, made.word2, made.word3, kWords, words);
}

// Words are made for this many elements at a time; they stay in the first cache.
constexpr int64_t kDropoutPiece = 1024;

template <typename Element>
void dropout_row(std::byte* y, const std::byte* x, int64_t width, int64_t first_word,
                 const DropoutOptions& options) {
  alignas(64) std::array<uint32_t, kDropoutPiece + 8 * kLanes> words;
  const auto threshold = hn::Set(kWords, dropout_threshold(options.probability));
  const Vector scale = hn::Set(kFloats, 1.0f / (1.0f - options.probability));
  for (int64_t first = 0; first < width; first += kDropoutPiece) {
    const int64_t count = std::min(kDropoutPiece, width - first);
    const int64_t skipped = (first_word + first) % 4;  // a block has four words
    for (int64_t made = 0; made < skipped + count; made += 4 * kLanes) {
      philox_words(words.data() + made, options.key,
                   static_cast<uint64_t>((first_word + first) / 4 + made / 4));
    }
    for_each_vector(count, [&](int64_t d, auto lanes) HWY_ATTR {
      const auto word = hn::LoadU(kWords, words.data() + skipped + d);
      const auto drop = hn::RebindMask(kFloats, hn::Lt(word, threshold));
      const Vector kept = hn::Mul(load<Element>(x, first + d, lanes), scale);
      store<Element>(hn::IfThenZeroElse(drop, kept), y, first + d, lanes);
    });
  }
}

void dropout(Context& context, Tensor y_TD, ConstTensor x_TD, const DropoutOptions& options) {
  const Rows y_rows(y_TD);
  const ConstRows x_rows(x_TD);
  const int64_t width = x_rows.width(0);
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        dropout_row<Element>(y_rows.row(t), x_rows.row(t), width, (options.first_row + t) * width,
                             options);
      }
    });
  });
}

constexpr ElementwiseBackend backend(Target target) {
  return {.target = target,
          .convert = convert,
          .add = add,
          .clear = clear_rows,
          .plan_column_sum_bytes = plan_column_sum_bytes,
          .column_sum_add = column_sum_add,
          .dropout = dropout};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
constinit const ElementwiseBackend kElementwiseAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const ElementwiseBackend kElementwiseAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const ElementwiseBackend kElementwiseSimd =
    HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
