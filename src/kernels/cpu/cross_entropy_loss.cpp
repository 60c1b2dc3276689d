// The loss from the statistics of whole rows: a few numbers per token, the same on every CPU.

#include "kernels/cpu/cross_entropy_loss.h"

#include <cmath>
#include <cstdint>

namespace cadre::kernels::cpu {

void cross_entropy_loss(Context&, Tensor loss_1, Tensor z_1, Tensor count_1, Tensor lse_T,
                        ConstTensor max_T, ConstTensor sum_T, ConstTensor target_logit_T,
                        ConstTensor target_T) {
  const float* const max = max_T.begin<float>();
  const float* const sum = sum_T.begin<float>();
  const float* const target_logit = target_logit_T.begin<float>();
  const int32_t* const target = target_T.begin<int32_t>();
  float* const lse = lse_T.begin<float>();
  double loss = 0.0;
  double z = 0.0;
  int64_t count = 0;
  for (int64_t t = 0; t < target_T.shape[0]; ++t) {
    const double row_lse = static_cast<double>(max[t]) + std::log(static_cast<double>(sum[t]));
    lse[t] = static_cast<float>(row_lse);
    if (target[t] != kIgnoredTarget) {
      loss += row_lse - static_cast<double>(target_logit[t]);
      z += row_lse * row_lse;
      ++count;
    }
  }
  *loss_1.begin<float>() += static_cast<float>(loss);
  *z_1.begin<float>() += static_cast<float>(z);
  *count_1.begin<float>() += static_cast<float>(count);
}

}  // namespace cadre::kernels::cpu
