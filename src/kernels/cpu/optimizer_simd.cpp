// Updates of parameters in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <cmath>
#include <cstdint>
#include <numeric>

#include "kernels/cpu/optimizer_shared.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/optimizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Calls body(index, lanes) for every vector of packed tensors of one shape.
template <typename Body>
void for_each_element(Context& context, ConstTensor like, const Body& body) {
  const RowTiles tiles{.rows = like.shape.elements(), .rows_per_tile = kTileElements};
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    const int64_t first = tiles.first(tile);
    for_each_vector(tiles.end(tile) - first,
                    [&](int64_t i, auto lanes) HWY_ATTR { body(first + i, lanes); });
  });
}

// What is refreshed beside the value: nothing, or a copy of type Element.
template <typename Element>
struct Copy {
  explicit Copy(Tensor copy) : data(copy.data) {}
  template <typename Lanes>
  HWY_INLINE void refresh(Vector value, int64_t index, Lanes lanes) const {
    if constexpr (!std::is_same_v<Element, float>) {
      store<Element>(value, data, index, lanes);
    }
  }
  std::byte* data;
};

// Calls body(Copy<Element>) for the copy's dtype; float: there is none.
template <typename Body>
void with_copy(Tensor copy, const Body& body) {
  with_element(copy.empty() ? DType::kF32 : copy.dtype,
               [&]<typename Element>(Element) { body(Copy<Element>(copy)); });
}

void clear_gradient(Context& context, Tensor gradient) {
  float* const g = gradient.begin<float>();
  for_each_element(context, gradient,
                   [&](int64_t i, auto lanes) HWY_ATTR { store(hn::Zero(kFloats), g, i, lanes); });
}

template <typename Element>
void adamw_elements(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                    Tensor v_tensor, float scale_of_gradient, const AdamWFactors& factors,
                    Copy<Element> copy) {
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = m_tensor.begin<float>();
  float* const v = v_tensor.begin<float>();
  const Vector scale = hn::Set(kFloats, scale_of_gradient);
  const Vector beta1 = hn::Set(kFloats, factors.beta1);
  const Vector one_minus_beta1 = hn::Set(kFloats, factors.one_minus_beta1);
  const Vector beta2 = hn::Set(kFloats, factors.beta2);
  const Vector one_minus_beta2 = hn::Set(kFloats, factors.one_minus_beta2);
  const Vector root_scale = hn::Set(kFloats, factors.root_scale);
  const Vector epsilon = hn::Set(kFloats, factors.epsilon);
  const Vector keep = hn::Set(kFloats, factors.keep);
  const Vector step_size = hn::Set(kFloats, factors.step_size);
  for_each_element(context, parameter.value, [=](int64_t i, auto lanes) HWY_ATTR {
    const Vector g = hn::Mul(scale, load(gradient, i, lanes));
    const Vector m_i = hn::MulAdd(beta1, load(m, i, lanes), hn::Mul(one_minus_beta1, g));
    const Vector v_i =
        hn::MulAdd(beta2, load(v, i, lanes), hn::Mul(one_minus_beta2, hn::Mul(g, g)));
    const Vector denominator = hn::MulAdd(hn::Sqrt(v_i), root_scale, epsilon);
    const Vector moved = hn::Div(hn::Mul(step_size, m_i), denominator);
    const Vector value_i = hn::MulSub(keep, load(value, i, lanes), moved);
    store(m_i, m, i, lanes);
    store(v_i, v, i, lanes);
    store(value_i, value, i, lanes);
    store(hn::Zero(kFloats), gradient, i, lanes);
    copy.refresh(value_i, i, lanes);
  });
}

void adamw_update(Context& context, const UpdateTensors& parameter, Tensor m, Tensor v,
                  ConstTensor scale_1, const AdamWOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  with_copy(parameter.copy, [&](const auto& copy) {
    adamw_elements(context, parameter, m, v, scale, AdamWFactors(options), copy);
  });
}

template <typename Element, bool kMomentum>
void sgd_elements(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                  float scale_of_gradient, const SgdOptions& options, Copy<Element> copy) {
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = kMomentum ? m_tensor.begin<float>() : nullptr;
  const Vector scale = hn::Set(kFloats, scale_of_gradient);
  const Vector momentum = hn::Set(kFloats, options.momentum);
  const Vector keep = hn::Set(kFloats, 1.0f - options.learning_rate * options.weight_decay);
  const Vector rate = hn::Set(kFloats, options.learning_rate);
  const bool nesterov = options.nesterov;
  for_each_element(context, parameter.value, [=](int64_t i, auto lanes) HWY_ATTR {
    const Vector g = hn::Mul(scale, load(gradient, i, lanes));
    Vector step = g;
    if constexpr (kMomentum) {
      const Vector m_i = hn::MulAdd(momentum, load(m, i, lanes), g);
      store(m_i, m, i, lanes);
      step = nesterov ? hn::MulAdd(momentum, m_i, g) : m_i;
    }
    const Vector value_i = hn::NegMulAdd(rate, step, hn::Mul(keep, load(value, i, lanes)));
    store(value_i, value, i, lanes);
    store(hn::Zero(kFloats), gradient, i, lanes);
    copy.refresh(value_i, i, lanes);
  });
}

void sgd_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                const SgdOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  with_copy(parameter.copy, [&]<typename Element>(const Copy<Element>& copy) {
    m.empty() ? sgd_elements<Element, false>(context, parameter, m, scale, options, copy)
              : sgd_elements<Element, true>(context, parameter, m, scale, options, copy);
  });
}

template <typename Element>
void lion_elements(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                   float scale_of_gradient, const LionOptions& options, Copy<Element> copy) {
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = m_tensor.begin<float>();
  const Vector scale = hn::Set(kFloats, scale_of_gradient);
  const Vector beta1 = hn::Set(kFloats, options.beta1);
  const Vector one_minus_beta1 = hn::Set(kFloats, 1.0f - options.beta1);
  const Vector beta2 = hn::Set(kFloats, options.beta2);
  const Vector one_minus_beta2 = hn::Set(kFloats, 1.0f - options.beta2);
  const Vector keep = hn::Set(kFloats, 1.0f - options.learning_rate * options.weight_decay);
  const Vector rate = hn::Set(kFloats, options.learning_rate);
  for_each_element(context, parameter.value, [=](int64_t i, auto lanes) HWY_ATTR {
    const Vector g = hn::Mul(scale, load(gradient, i, lanes));
    const Vector old = load(m, i, lanes);
    const Vector mixed = hn::MulAdd(beta1, old, hn::Mul(one_minus_beta1, g));
    const Vector zero = hn::Zero(kFloats);
    const Vector one = hn::Set(kFloats, 1.0f);
    const Vector sign = hn::Sub(hn::IfThenElseZero(hn::Gt(mixed, zero), one),
                                hn::IfThenElseZero(hn::Lt(mixed, zero), one));
    const Vector value_i = hn::NegMulAdd(rate, sign, hn::Mul(keep, load(value, i, lanes)));
    store(hn::MulAdd(beta2, old, hn::Mul(one_minus_beta2, g)), m, i, lanes);
    store(value_i, value, i, lanes);
    store(zero, gradient, i, lanes);
    copy.refresh(value_i, i, lanes);
  });
}

void lion_update(Context& context, const UpdateTensors& parameter, Tensor m, ConstTensor scale_1,
                 const LionOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  with_copy(parameter.copy,
            [&](const auto& copy) { lion_elements(context, parameter, m, scale, options, copy); });
}

void muon_momentum(Context& context, Tensor update_tensor, Tensor m_tensor, Tensor gradient_tensor,
                   ConstTensor scale_1, float momentum, bool nesterov) {
  float* const update = update_tensor.begin<float>();
  float* const m = m_tensor.begin<float>();
  float* const gradient = gradient_tensor.begin<float>();
  if (!std::isfinite(*scale_1.begin<float>())) {
    clear_gradient(context, update_tensor);
    clear_gradient(context, gradient_tensor);
    return;
  }
  const Vector scale = hn::Set(kFloats, *scale_1.begin<float>());
  const Vector beta = hn::Set(kFloats, momentum);
  for_each_element(context, m_tensor, [=](int64_t i, auto lanes) HWY_ATTR {
    const Vector g = hn::Mul(scale, load(gradient, i, lanes));
    const Vector m_i = hn::MulAdd(beta, load(m, i, lanes), g);
    store(m_i, m, i, lanes);
    store(nesterov ? hn::MulAdd(beta, m_i, g) : m_i, update, i, lanes);
    store(hn::Zero(kFloats), gradient, i, lanes);
  });
}

void muon_apply(Context& context, Tensor value_tensor, Tensor copy_tensor,
                ConstTensor update_tensor, ConstTensor scale_1, float learning_rate,
                float update_scale, float weight_decay) {
  if (!std::isfinite(*scale_1.begin<float>())) {
    return;
  }
  float* const value = value_tensor.begin<float>();
  const float* const update = update_tensor.begin<float>();
  const Vector keep = hn::Set(kFloats, 1.0f - learning_rate * weight_decay);
  const Vector rate = hn::Set(kFloats, learning_rate * update_scale);
  with_copy(copy_tensor, [&](const auto& copy) {
    for_each_element(context, value_tensor, [=](int64_t i, auto lanes) HWY_ATTR {
      const Vector kept = hn::Mul(keep, load(value, i, lanes));
      const Vector value_i = hn::NegMulAdd(rate, load(update, i, lanes), kept);
      store(value_i, value, i, lanes);
      copy.refresh(value_i, i, lanes);
    });
  });
}

// In double: 2^24 equal squares would stop growing in float.
template <typename Element>
double squares_of(const std::byte* row, int64_t width) {
  constexpr HWY_FULL(double) kDoubles;
  constexpr hn::Half<Floats> kHalfFloats;
  auto low_sum = hn::Zero(kDoubles);
  auto high_sum = hn::Zero(kDoubles);
  for_each_vector(width, [&](int64_t d, auto lanes) HWY_ATTR {
    const Vector x = load<Element>(row, d, lanes);
    const auto low = hn::PromoteTo(kDoubles, hn::LowerHalf(kHalfFloats, x));
    const auto high = hn::PromoteTo(kDoubles, hn::UpperHalf(kHalfFloats, x));
    low_sum = hn::MulAdd(low, low, low_sum);
    high_sum = hn::MulAdd(high, high, high_sum);
  });
  return hn::GetLane(hn::SumOfLanes(kDoubles, hn::Add(low_sum, high_sum)));
}

void squared_sum(Context& context, Tensor sum_1, ConstTensor x, std::byte* workspace) {
  const ConstRows rows = elements_of(x, x.packed());
  const RowTiles tiles = row_tiles(rows.count(), rows.width(0), kTilesUnbounded);
  double* const sums = reinterpret_cast<double*>(workspace);
  with_element(x.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      sums[tile] = 0.0;
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        sums[tile] += squares_of<Element>(rows.row(t), rows.width(t));
      }
    });
  });
  *sum_1.begin<float>() = static_cast<float>(std::accumulate(sums, sums + tiles.count(), 0.0));
}

constexpr OptimizerBackend backend(Target target) {
  return {.target = target,
          .adamw_update = adamw_update,
          .sgd_update = sgd_update,
          .lion_update = lion_update,
          .muon_momentum = muon_momentum,
          .muon_apply = muon_apply,
          .plan_squared_sum_bytes = plan_squared_sum_bytes,
          .squared_sum = squared_sum};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
constinit const OptimizerBackend kOptimizerAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const OptimizerBackend kOptimizerAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const OptimizerBackend kOptimizerSimd = HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
