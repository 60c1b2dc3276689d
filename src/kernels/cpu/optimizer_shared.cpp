#include "kernels/cpu/optimizer_shared.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/rows.h"

namespace cadre::kernels::cpu {

int64_t plan_squared_sum_bytes(ConstTensor x) {
  const ConstRows rows = elements_of(x, x.packed());
  return row_tiles(rows.count(), rows.width(0), kTilesUnbounded).count() *
         static_cast<int64_t>(sizeof(double));
}

void gradient_scale(Context&, Tensor scale_1, Tensor norm_1, ConstTensor squared_P,
                    ConstTensor count_1, const GradientScaleOptions& options) {
  const float* const squared = squared_P.begin<float>();
  const double sum = std::accumulate(squared, squared + squared_P.shape[0], 0.0);
  const double count = static_cast<double>(*count_1.begin<float>());
  double norm = 0.0;
  double scale = 0.0;
  if (!std::isfinite(sum) || !std::isfinite(count)) {
    norm = scale = std::nan("");
  } else if (count != 0.0) {
    scale = 1.0 / (count * static_cast<double>(options.loss_scale));
    norm = std::sqrt(sum) * scale;
    if (options.max_norm > 0.0f) {
      scale *= std::min(1.0, static_cast<double>(options.max_norm) / (norm + 1e-6));
    }
  }
  *scale_1.begin<float>() = static_cast<float>(scale);
  *norm_1.begin<float>() = static_cast<float>(norm);
}

}  // namespace cadre::kernels::cpu
