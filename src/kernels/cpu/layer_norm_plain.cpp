#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/layer_norm_sums.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/layer_norm.h"

namespace cadre::kernels::cpu {
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
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* x = x_rows.row(t);
      if (!sum_rows.empty()) {
        for (int64_t d = 0; d < width; ++d) {
          store<Element>(sum_rows.row(t), d,
                         load<Element>(x, d) + load<Element>(branch_rows.row(t), d));
        }
        x = sum_rows.row(t);
      }
      float sum = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        sum += load<Element>(x, d);
      }
      mean[t] = sum / static_cast<float>(width);
      float squares = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        const float distance = load<Element>(x, d) - mean[t];
        squares += distance * distance;
      }
      rstd[t] = 1.0f / std::sqrt(squares / static_cast<float>(width) + task.epsilon);
      for (int64_t d = 0; d < width; ++d) {
        store<Element>(y_rows.row(t), d,
                       (load<Element>(x, d) - mean[t]) * rstd[t] * weight[d] + bias[d]);
      }
    }
  });
}

template <typename Element>
void backward_rows(Context& context, const LayerNormBackwardTask& task, float* workspace) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows dy_rows(task.dy_TD);
  const ConstRows dresidual_rows(task.dresidual_TD);
  const Rows dx_rows(task.dx_TD);
  const float* const weight = task.weight_D.begin<float>();
  const float* const mean = task.mean_T.begin<float>();
  const float* const rstd = task.rstd_T.begin<float>();
  const int64_t width = x_rows.width(0);
  const LayerNormSums sums(task, workspace);
  context.threads.run(sums.tiles.count(), [&](int64_t tile, int) {
    float* const dweight = sums.dweight_of(tile);
    float* const dbias = sums.dbias_of(tile);
    sums.clear(tile);
    for (int64_t t = sums.tiles.first(tile); t < sums.tiles.end(tile); ++t) {
      const std::byte* const x = x_rows.row(t);
      const std::byte* const dy = dy_rows.row(t);
      const std::byte* const dresidual = dresidual_rows.row(t);
      float h_sum = 0.0f;
      float hn_sum = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        const float h = load<Element>(dy, d) * weight[d];
        h_sum += h;
        hn_sum += h * (load<Element>(x, d) - mean[t]) * rstd[t];
      }
      const float h_mean = h_sum / static_cast<float>(width);
      const float hn_mean = hn_sum / static_cast<float>(width);
      for (int64_t d = 0; d < width; ++d) {
        const float n = (load<Element>(x, d) - mean[t]) * rstd[t];
        const float dy_d = load<Element>(dy, d);
        const float residual = dresidual == nullptr ? 0.0f : load<Element>(dresidual, d);
        if (dweight != nullptr) {
          dweight[d] += dy_d * n;
        }
        if (dbias != nullptr) {
          dbias[d] += dy_d;
        }
        store<Element>(dx_rows.row(t), d,
                       residual + rstd[t] * (dy_d * weight[d] - h_mean - n * hn_mean));
      }
    }
  });
  sums.add_to(task);
}

void forward(Context& context, const LayerNormForwardTask& task) {
  with_element(task.x_TD.dtype,
               [&]<typename Element>(Element) { forward_rows<Element>(context, task); });
}

void backward(Context& context, const LayerNormBackwardTask& task, std::byte* workspace) {
  with_element(task.x_TD.dtype, [&]<typename Element>(Element) {
    backward_rows<Element>(context, task, reinterpret_cast<float*>(workspace));
  });
}

}  // namespace

const LayerNormBackend kLayerNormPlain{.target = Target::kCpu,
                                       .forward = forward,
                                       .plan_backward_bytes = LayerNormSums::plan_bytes,
                                       .backward = backward};

}  // namespace cadre::kernels::cpu
