// RMSNorm in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"
#include "kernels/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <typename Element>
void forward_rows(Context& context, const RmsNormForwardTask& task) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows branch_rows(task.branch_TD);
  const Rows sum_rows(task.sum_TD);
  const Rows y_rows(task.y_TD);
  const float* const weight = task.weight_D.begin<float>();
  float* const rstd = task.rstd_T.begin<float>();
  const int64_t width = x_rows.width(0);
  const float epsilon = task.epsilon;
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* x = x_rows.row(t);
      std::byte* const y = y_rows.row(t);
      Vector squares = hn::Zero(kFloats);
      if (sum_rows.empty()) {
        for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
          const Vector x_d = load<Element>(x, d, lanes);
          squares = hn::MulAdd(x_d, x_d, squares);
        });
      } else {
        const std::byte* const branch = branch_rows.row(t);
        std::byte* const sum = sum_rows.row(t);
        for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
          store<Element>(hn::Add(load<Element>(x, d, lanes), load<Element>(branch, d, lanes)), sum,
                         d, lanes);
          const Vector sum_d = load<Element>(sum, d, lanes);  // as it was rounded
          squares = hn::MulAdd(sum_d, sum_d, squares);
        });
        x = sum;
      }
      rstd[t] = 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(width) + epsilon);
      const Vector scale = hn::Set(kFloats, rstd[t]);
      for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
        const Vector x_d = hn::Mul(load<Element>(x, d, lanes), scale);
        store<Element>(hn::Mul(x_d, load(weight, d, lanes)), y, d, lanes);
      });
    }
  });
}

int64_t plan_backward_bytes(const RmsNormBackwardTask& task) {
  const ConstRows rows(task.x_TD);
  return task.dweight_D.empty()
             ? 0
             : tile_sum_bytes(summed_tiles(rows.count(), rows.width(0)), rows.width(0));
}

// One row; `dweight` is null where the weight is frozen, `dresidual` where there is none.
template <typename Element, bool kSums, bool kResidual>
HWY_INLINE void backward_row(std::byte* dx, float* dweight, const std::byte* dy, const std::byte* x,
                             const float* weight, float rstd, const std::byte* dresidual,
                             int64_t width) {
  Vector products = hn::Zero(kFloats);
  for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
    const Vector h = hn::Mul(load<Element>(dy, d, lanes), load(weight, d, lanes));
    products = hn::MulAdd(h, load<Element>(x, d, lanes), products);
  });
  const Vector scale = hn::Set(kFloats, rstd);
  const Vector pull =
      hn::Set(kFloats, rstd * rstd * rstd * sum_of(products) / static_cast<float>(width));
  for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
    const Vector x_d = load<Element>(x, d, lanes);
    const Vector dy_d = hn::Mul(load<Element>(dy, d, lanes), scale);
    if constexpr (kSums) {
      store(hn::MulAdd(dy_d, x_d, load(dweight, d, lanes)), dweight, d, lanes);
    }
    Vector dx_d = hn::Mul(dy_d, load(weight, d, lanes));
    dx_d = hn::NegMulAdd(x_d, pull, dx_d);
    if constexpr (kResidual) {
      dx_d = hn::Add(dx_d, load<Element>(dresidual, d, lanes));
    }
    store<Element>(dx_d, dx, d, lanes);
  });
}

template <typename Element, bool kSums, bool kResidual>
void backward_rows(Context& context, const RmsNormBackwardTask& task, float* tile_sums) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows dy_rows(task.dy_TD);
  const ConstRows dresidual_rows(task.dresidual_TD);
  const Rows dx_rows(task.dx_TD);
  const float* const weight = task.weight_D.begin<float>();
  const float* const rstd = task.rstd_T.begin<float>();
  const int64_t width = x_rows.width(0);
  const RowTiles tiles = summed_tiles(x_rows.count(), width);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    float* const dweight = kSums ? tile_sums + tile * width : nullptr;
    if constexpr (kSums) {
      std::fill_n(dweight, width, 0.0f);
    }
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      backward_row<Element, kSums, kResidual>(dx_rows.row(t), dweight, dy_rows.row(t),
                                              x_rows.row(t), weight, rstd[t], dresidual_rows.row(t),
                                              width);
    }
  });
  if constexpr (kSums) {
    add_tile_sums(task.dweight_D, tile_sums, tiles);
  }
}

void forward(Context& context, const RmsNormForwardTask& task) {
  with_element(task.x_TD.dtype,
               [&]<typename Element>(Element) { forward_rows<Element>(context, task); });
}

void backward(Context& context, const RmsNormBackwardTask& task, std::byte* workspace) {
  float* const tile_sums = reinterpret_cast<float*>(workspace);
  with_element(task.x_TD.dtype, [&]<typename Element>(Element) {
    if (task.dweight_D.empty()) {
      task.dresidual_TD.empty() ? backward_rows<Element, false, false>(context, task, nullptr)
                                : backward_rows<Element, false, true>(context, task, nullptr);
    } else {
      task.dresidual_TD.empty() ? backward_rows<Element, true, false>(context, task, tile_sums)
                                : backward_rows<Element, true, true>(context, task, tile_sums);
    }
  });
}

constexpr RmsNormBackend backend(Target target) {
  return {.target = target,
          .forward = forward,
          .plan_backward_bytes = plan_backward_bytes,
          .backward = backward};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
constinit const RmsNormBackend kRmsNormAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const RmsNormBackend kRmsNormAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const RmsNormBackend kRmsNormSimd = HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
