// LayerNorm in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <cmath>
#include <cstdint>

#include "kernels/cpu/layer_norm_sums.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/layer_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm_simd.cpp"
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
void forward_rows(Context& context, const LayerNormForwardTask& task) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows branch_rows(task.branch_TD);
  const Rows sum_rows(task.sum_TD);
  const Rows y_rows(task.y_TD);
  const float* const weight = task.weight_D.begin<float>();
  const float* const bias = task.bias_D.begin<float>();
  float* const mean = task.mean_T.begin<float>();
  float* const rstd = task.rstd_T.begin<float>();
  const int64_t width = x_rows.width(0);
  const float epsilon = task.epsilon;
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* x = x_rows.row(t);
      std::byte* const y = y_rows.row(t);
      Vector total = hn::Zero(kFloats);
      if (sum_rows.empty()) {
        for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
          total = hn::Add(total, load<Element>(x, d, lanes));
        });
      } else {
        const std::byte* const branch = branch_rows.row(t);
        std::byte* const sum = sum_rows.row(t);
        for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
          store<Element>(hn::Add(load<Element>(x, d, lanes), load<Element>(branch, d, lanes)), sum,
                         d, lanes);
          total = hn::Add(total, load<Element>(sum, d, lanes));  // as it was rounded
        });
        x = sum;
      }
      mean[t] = sum_of(total) / static_cast<float>(width);
      const Vector center = hn::Set(kFloats, mean[t]);
      Vector squares = hn::Zero(kFloats);
      for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
        const Vector distance = hn::Sub(load_or<Element>(center, x, d, lanes), center);
        squares = hn::MulAdd(distance, distance, squares);
      });
      rstd[t] = 1.0f / std::sqrt(sum_of(squares) / static_cast<float>(width) + epsilon);
      const Vector scale = hn::Set(kFloats, rstd[t]);
      for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
        const Vector n = hn::Mul(hn::Sub(load<Element>(x, d, lanes), center), scale);
        store<Element>(hn::MulAdd(n, load(weight, d, lanes), load(bias, d, lanes)), y, d, lanes);
      });
    }
  });
}

// What one row of the backward pass reads and writes. `dweight` and `dbias` are null where they are
// frozen, `dresidual` where there is none.
struct BackwardRow {
  std::byte* dx = nullptr;
  float* dweight = nullptr;
  float* dbias = nullptr;
  const std::byte* dy = nullptr;
  const std::byte* x = nullptr;
  const float* weight = nullptr;
  const std::byte* dresidual = nullptr;
  float mean = 0.0f;
  float rstd = 0.0f;
};

template <typename Element, bool kSums, bool kResidual>
HWY_INLINE void backward_row(const BackwardRow& row, int64_t width) {
  const Vector center = hn::Set(kFloats, row.mean);
  const Vector scale = hn::Set(kFloats, row.rstd);
  Vector h_sum = hn::Zero(kFloats);
  Vector hn_sum = hn::Zero(kFloats);
  for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
    const Vector n = hn::Mul(hn::Sub(load<Element>(row.x, d, lanes), center), scale);
    const Vector h = hn::Mul(load<Element>(row.dy, d, lanes), load(row.weight, d, lanes));
    h_sum = hn::Add(h_sum, h);
    hn_sum = hn::MulAdd(h, n, hn_sum);
  });
  const auto count = static_cast<float>(width);
  const Vector h_mean = hn::Set(kFloats, sum_of(h_sum) / count);
  const Vector hn_mean = hn::Set(kFloats, sum_of(hn_sum) / count);
  for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
    const Vector n = hn::Mul(hn::Sub(load<Element>(row.x, d, lanes), center), scale);
    const Vector dy = load<Element>(row.dy, d, lanes);
    if constexpr (kSums) {
      if (row.dweight != nullptr) {
        store(hn::MulAdd(dy, n, load(row.dweight, d, lanes)), row.dweight, d, lanes);
      }
      if (row.dbias != nullptr) {
        store(hn::Add(dy, load(row.dbias, d, lanes)), row.dbias, d, lanes);
      }
    }
    const Vector h = hn::MulSub(dy, load(row.weight, d, lanes), h_mean);
    Vector dx = hn::Mul(scale, hn::NegMulAdd(n, hn_mean, h));
    if constexpr (kResidual) {
      dx = hn::Add(dx, load<Element>(row.dresidual, d, lanes));
    }
    store<Element>(dx, row.dx, d, lanes);
  });
}

template <typename Element, bool kSums, bool kResidual>
void backward_rows(Context& context, const LayerNormBackwardTask& task, float* workspace) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows dy_rows(task.dy_TD);
  const ConstRows dresidual_rows(task.dresidual_TD);
  const Rows dx_rows(task.dx_TD);
  const LayerNormSums sums(task, workspace);
  context.threads.run(sums.tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    sums.clear(tile);
    for (int64_t t = sums.tiles.first(tile); t < sums.tiles.end(tile); ++t) {
      backward_row<Element, kSums, kResidual>({.dx = dx_rows.row(t),
                                               .dweight = sums.dweight_of(tile),
                                               .dbias = sums.dbias_of(tile),
                                               .dy = dy_rows.row(t),
                                               .x = x_rows.row(t),
                                               .weight = task.weight_D.begin<float>(),
                                               .dresidual = dresidual_rows.row(t),
                                               .mean = task.mean_T.begin<float>()[t],
                                               .rstd = task.rstd_T.begin<float>()[t]},
                                              sums.width);
    }
  });
  sums.add_to(task);
}

void forward(Context& context, const LayerNormForwardTask& task) {
  with_element(task.x_TD.dtype,
               [&]<typename Element>(Element) { forward_rows<Element>(context, task); });
}

void backward(Context& context, const LayerNormBackwardTask& task, std::byte* workspace) {
  float* const floats = reinterpret_cast<float*>(workspace);
  with_element(task.x_TD.dtype, [&]<typename Element>(Element) {
    if (task.dweight_D.empty() && task.dbias_D.empty()) {
      task.dresidual_TD.empty() ? backward_rows<Element, false, false>(context, task, floats)
                                : backward_rows<Element, false, true>(context, task, floats);
    } else {
      task.dresidual_TD.empty() ? backward_rows<Element, true, false>(context, task, floats)
                                : backward_rows<Element, true, true>(context, task, floats);
    }
  });
}

constexpr LayerNormBackend backend(Target target) {
  return {.target = target,
          .forward = forward,
          .plan_backward_bytes = LayerNormSums::plan_bytes,
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
constinit const LayerNormBackend kLayerNormAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const LayerNormBackend kLayerNormAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const LayerNormBackend kLayerNormSimd = HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
