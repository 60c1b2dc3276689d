#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"
#include "kernels/rms_norm.h"

namespace cadre::kernels::cpu {
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
      float squares = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        squares += load<Element>(x, d) * load<Element>(x, d);
      }
      rstd[t] = 1.0f / std::sqrt(squares / static_cast<float>(width) + task.epsilon);
      for (int64_t d = 0; d < width; ++d) {
        store<Element>(y_rows.row(t), d, load<Element>(x, d) * rstd[t] * weight[d]);
      }
    }
  });
}

int64_t plan_backward_bytes(const RmsNormBackwardTask& task) {
  const ConstRows rows(task.x_TD);
  return task.dweight_D.empty()
             ? 0
             : tile_sum_bytes(summed_tiles(rows.count(), rows.width(0)), rows.width(0));
}

template <typename Element>
void backward_rows(Context& context, const RmsNormBackwardTask& task, float* tile_sums) {
  const ConstRows x_rows(task.x_TD);
  const ConstRows dy_rows(task.dy_TD);
  const ConstRows dresidual_rows(task.dresidual_TD);
  const Rows dx_rows(task.dx_TD);
  const float* const weight = task.weight_D.begin<float>();
  const float* const rstd = task.rstd_T.begin<float>();
  const int64_t width = x_rows.width(0);
  const RowTiles tiles = summed_tiles(x_rows.count(), width);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    float* const dweight = tile_sums == nullptr ? nullptr : tile_sums + tile * width;
    if (dweight != nullptr) {
      std::fill_n(dweight, width, 0.0f);
    }
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const x = x_rows.row(t);
      const std::byte* const dy = dy_rows.row(t);
      const std::byte* const dresidual = dresidual_rows.row(t);
      float products = 0.0f;
      for (int64_t d = 0; d < width; ++d) {
        products += load<Element>(dy, d) * weight[d] * load<Element>(x, d);
      }
      const float pull = rstd[t] * rstd[t] * products / static_cast<float>(width);
      for (int64_t d = 0; d < width; ++d) {
        const float x_d = load<Element>(x, d);
        const float dy_d = load<Element>(dy, d);
        const float residual = dresidual == nullptr ? 0.0f : load<Element>(dresidual, d);
        if (dweight != nullptr) {
          dweight[d] += dy_d * x_d * rstd[t];
        }
        store<Element>(dx_rows.row(t), d, residual + rstd[t] * (dy_d * weight[d] - x_d * pull));
      }
    }
  });
  if (tile_sums != nullptr) {
    add_tile_sums(task.dweight_D, tile_sums, tiles);
  }
}

void forward(Context& context, const RmsNormForwardTask& task) {
  with_element(task.x_TD.dtype,
               [&]<typename Element>(Element) { forward_rows<Element>(context, task); });
}

void backward(Context& context, const RmsNormBackwardTask& task, std::byte* workspace) {
  float* const tile_sums = task.dweight_D.empty() ? nullptr : reinterpret_cast<float*>(workspace);
  with_element(task.x_TD.dtype, [&]<typename Element>(Element) {
    backward_rows<Element>(context, task, tile_sums);
  });
}

}  // namespace

const RmsNormBackend kRmsNormPlain{.target = Target::kCpu,
                                   .forward = forward,
                                   .plan_backward_bytes = plan_backward_bytes,
                                   .backward = backward};

}  // namespace cadre::kernels::cpu
