#include <cmath>
#include <cstdint>
#include <numeric>

#include "kernels/cpu/optimizer_shared.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/optimizer.h"

namespace cadre::kernels::cpu {
namespace {

// Calls body(i) for every element of packed tensors of one shape.
template <typename Body>
void for_each_element(Context& context, ConstTensor like, const Body& body) {
  const RowTiles tiles{.rows = like.shape.elements(), .rows_per_tile = kTileElements};
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t i = tiles.first(tile); i < tiles.end(tile); ++i) {
      body(i);
    }
  });
}

void store_copy(Tensor copy, int64_t index, float value) {
  if (copy.empty()) {
    return;
  }
  if (copy.dtype == DType::kBf16) {
    store<Bf16>(copy.data, index, value);
  } else {
    store<F16>(copy.data, index, value);
  }
}

void clear_gradient(Context& context, Tensor gradient) {
  float* const g = gradient.begin<float>();
  for_each_element(context, gradient, [&](int64_t i) { g[i] = 0.0f; });
}

void adamw_update(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                  Tensor v_tensor, ConstTensor scale_1, const AdamWOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  const AdamWFactors factors(options);
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = m_tensor.begin<float>();
  float* const v = v_tensor.begin<float>();
  for_each_element(context, parameter.value, [&](int64_t i) {
    const float g = scale * gradient[i];
    m[i] = factors.beta1 * m[i] + factors.one_minus_beta1 * g;
    v[i] = factors.beta2 * v[i] + factors.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v[i]) * factors.root_scale + factors.epsilon;
    value[i] = value[i] * factors.keep - factors.step_size * m[i] / denominator;
    gradient[i] = 0.0f;
    store_copy(parameter.copy, i, value[i]);
  });
}

void sgd_update(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                ConstTensor scale_1, const SgdOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = m_tensor.empty() ? nullptr : m_tensor.begin<float>();
  const float keep = 1.0f - options.learning_rate * options.weight_decay;
  for_each_element(context, parameter.value, [&](int64_t i) {
    const float g = scale * gradient[i];
    float step = g;
    if (m != nullptr) {
      m[i] = options.momentum * m[i] + g;
      step = options.nesterov ? g + options.momentum * m[i] : m[i];
    }
    value[i] = value[i] * keep - options.learning_rate * step;
    gradient[i] = 0.0f;
    store_copy(parameter.copy, i, value[i]);
  });
}

float sign_of(float x) {
  return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : 0.0f);
}

void lion_update(Context& context, const UpdateTensors& parameter, Tensor m_tensor,
                 ConstTensor scale_1, const LionOptions& options) {
  const float scale = *scale_1.begin<float>();
  if (!std::isfinite(scale)) {
    clear_gradient(context, parameter.gradient);
    return;
  }
  float* const value = parameter.value.begin<float>();
  float* const gradient = parameter.gradient.begin<float>();
  float* const m = m_tensor.begin<float>();
  const float keep = 1.0f - options.learning_rate * options.weight_decay;
  for_each_element(context, parameter.value, [&](int64_t i) {
    const float g = scale * gradient[i];
    const float direction = sign_of(options.beta1 * m[i] + (1.0f - options.beta1) * g);
    m[i] = options.beta2 * m[i] + (1.0f - options.beta2) * g;
    value[i] = value[i] * keep - options.learning_rate * direction;
    gradient[i] = 0.0f;
    store_copy(parameter.copy, i, value[i]);
  });
}

void muon_momentum(Context& context, Tensor update_tensor, Tensor m_tensor, Tensor gradient_tensor,
                   ConstTensor scale_1, float momentum, bool nesterov) {
  const float scale = *scale_1.begin<float>();
  const bool skip = !std::isfinite(scale);
  float* const update = update_tensor.begin<float>();
  float* const m = m_tensor.begin<float>();
  float* const gradient = gradient_tensor.begin<float>();
  for_each_element(context, m_tensor, [&](int64_t i) {
    update[i] = 0.0f;
    if (!skip) {
      const float g = scale * gradient[i];
      m[i] = momentum * m[i] + g;
      update[i] = nesterov ? g + momentum * m[i] : m[i];
    }
    gradient[i] = 0.0f;
  });
}

void muon_apply(Context& context, Tensor value_tensor, Tensor copy, ConstTensor update_tensor,
                ConstTensor scale_1, float learning_rate, float update_scale, float weight_decay) {
  if (!std::isfinite(*scale_1.begin<float>())) {
    return;
  }
  float* const value = value_tensor.begin<float>();
  const float* const update = update_tensor.begin<float>();
  const float keep = 1.0f - learning_rate * weight_decay;
  for_each_element(context, value_tensor, [&](int64_t i) {
    value[i] = value[i] * keep - learning_rate * update_scale * update[i];
    store_copy(copy, i, value[i]);
  });
}

void squared_sum(Context& context, Tensor sum_1, ConstTensor x, std::byte* workspace) {
  const ConstRows rows = elements_of(x, x.packed());
  const RowTiles tiles = row_tiles(rows.count(), rows.width(0), kTilesUnbounded);
  double* const sums = reinterpret_cast<double*>(workspace);
  with_element(x.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      double sum = 0.0;
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        for (int64_t d = 0; d < rows.width(t); ++d) {
          const double element = static_cast<double>(load<Element>(rows.row(t), d));
          sum += element * element;
        }
      }
      sums[tile] = sum;
    });
  });
  *sum_1.begin<float>() = static_cast<float>(std::accumulate(sums, sums + tiles.count(), 0.0));
}

}  // namespace

const OptimizerBackend kOptimizerPlain{.target = Target::kCpu,
                                       .adamw_update = adamw_update,
                                       .sgd_update = sgd_update,
                                       .lion_update = lion_update,
                                       .muon_momentum = muon_momentum,
                                       .muon_apply = muon_apply,
                                       .plan_squared_sum_bytes = plan_squared_sum_bytes,
                                       .squared_sum = squared_sum};

}  // namespace cadre::kernels::cpu
