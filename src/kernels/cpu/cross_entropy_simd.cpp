// Cross entropy in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/cross_entropy_loss.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Columns whose maximum is taken before they are summed: they stay in the first cache.
constexpr int64_t kBlockColumns = 2048;

struct RowStatistics {
  float max = 0.0f;
  float sum = 1.0f;
};

float exponential_of(float x) {
  return hn::GetLane(exponential(hn::Set(kFloats, x)));
}

RowStatistics statistics_of(const std::byte* logits, int64_t width) {
  const Vector nothing = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  // Finite, so that the difference to a logit of minus infinity is no NaN.
  float max = std::numeric_limits<float>::lowest();
  float sum = 0.0f;
  for (int64_t first = 0; first < width; first += kBlockColumns) {
    const std::byte* const block = logits + first * static_cast<int64_t>(sizeof(float));
    const int64_t columns = std::min(kBlockColumns, width - first);
    Vector largest = hn::Set(kFloats, max);
    for_each_vector(columns, [&](int64_t v, auto lanes) HWY_ATTR {
      largest = hn::Max(largest, load_or<float>(nothing, block, v, lanes));
    });
    const float larger = hn::GetLane(hn::MaxOfLanes(kFloats, largest));
    sum *= exponential_of(max - larger);
    max = larger;
    const Vector shift = hn::Set(kFloats, max);
    Vector sums = hn::Zero(kFloats);
    for_each_vector(columns, [&](int64_t v, auto lanes) HWY_ATTR {
      sums = hn::Add(sums, exponential(hn::Sub(load_or<float>(nothing, block, v, lanes), shift)));
    });
    sum += sum_of(sums);
  }
  return {.max = max, .sum = sum};
}

void statistics(Context& context, Tensor max_T, Tensor sum_T, Tensor target_logit_T,
                ConstTensor logits_TV, ConstTensor target_T, const CrossEntropyOptions& options) {
  const ConstRows rows(logits_TV);
  const int32_t* const target = target_T.begin<int32_t>();
  const int64_t width = rows.width(0);
  const RowTiles tiles = row_tiles(rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      RowStatistics row;
      float target_logit = 0.0f;
      if (target[t] != kIgnoredTarget) {
        row = statistics_of(rows.row(t), width);
        const int64_t column = target[t] - options.first_column;
        target_logit = 0 <= column && column < width ? cpu::load<float>(rows.row(t), column) : 0.0f;
      }
      max_T.begin<float>()[t] = row.max;
      sum_T.begin<float>()[t] = row.sum;
      target_logit_T.begin<float>()[t] = target_logit;
    }
  });
}

template <typename Element>
void backward_row(std::byte* dlogits, const std::byte* logits, int64_t width, float lse,
                  float p_scale) {
  const Vector shift = hn::Set(kFloats, lse);
  const Vector scale = hn::Set(kFloats, p_scale);
  for_each_vector(width, [&](int64_t v, auto lanes) HWY_ATTR {
    const Vector p = exponential(hn::Sub(load<float>(logits, v, lanes), shift));
    store<Element>(hn::Mul(p, scale), dlogits, v, lanes);
  });
}

template <typename Element>
void backward_rows(Context& context, Tensor dlogits_TV, ConstTensor logits_TV, ConstTensor lse_T,
                   ConstTensor target_T, const CrossEntropyOptions& options) {
  const Rows dlogits_rows(dlogits_TV);
  const ConstRows rows(logits_TV);
  const float* const lse = lse_T.begin<float>();
  const int32_t* const target = target_T.begin<int32_t>();
  const int64_t width = rows.width(0);
  const RowTiles tiles = row_tiles(rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const logits = rows.row(t);
      std::byte* const dlogits = dlogits_rows.row(t);
      if (target[t] == kIgnoredTarget) {
        std::fill_n(dlogits, width * static_cast<int64_t>(sizeof(Element)), std::byte{0});
        continue;
      }
      const float p_scale = options.gradient_scale * (1.0f + 2.0f * options.z_loss * lse[t]);
      const int64_t column = target[t] - options.first_column;
      const bool ours = 0 <= column && column < width;
      // Taken before the row is overwritten.
      const float target_logit = ours ? cpu::load<float>(logits, column) : 0.0f;
      backward_row<Element>(dlogits, logits, width, lse[t], p_scale);
      if (ours) {
        const float p = exponential_of(target_logit - lse[t]);
        cpu::store<Element>(dlogits, column, p * p_scale - options.gradient_scale);
      }
    }
  });
}

void backward(Context& context, Tensor dlogits_TV, ConstTensor logits_TV, ConstTensor lse_T,
              ConstTensor target_T, const CrossEntropyOptions& options) {
  with_element(dlogits_TV.dtype, [&]<typename Element>(Element) {
    backward_rows<Element>(context, dlogits_TV, logits_TV, lse_T, target_T, options);
  });
}

constexpr CrossEntropyBackend backend(Target target) {
  return {
      .target = target, .statistics = statistics, .loss = cross_entropy_loss, .backward = backward};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
constinit const CrossEntropyBackend kCrossEntropyAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const CrossEntropyBackend kCrossEntropyAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const CrossEntropyBackend kCrossEntropySimd =
    HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
