// What the CPU backends of the optimizer share.

#pragma once

#include <cmath>

#include "kernels/optimizer.h"

namespace cadre::kernels::cpu {

int64_t plan_squared_sum_bytes(ConstTensor x);

// What AdamW multiplies with, taken once per update, in double.
struct AdamWFactors {
  explicit AdamWFactors(const AdamWOptions& options)
      : beta1(options.beta1),
        one_minus_beta1(static_cast<float>(1.0 - static_cast<double>(options.beta1))),
        beta2(options.beta2),
        one_minus_beta2(static_cast<float>(1.0 - static_cast<double>(options.beta2))),
        epsilon(options.epsilon) {
    const double rate = static_cast<double>(options.learning_rate);
    const double steps = static_cast<double>(options.step);
    const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), steps);
    const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), steps);
    keep = static_cast<float>(1.0 - rate * static_cast<double>(options.weight_decay));
    step_size = static_cast<float>(rate / correction1);
    root_scale = static_cast<float>(1.0 / std::sqrt(correction2));
  }

  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float epsilon;
  float keep = 1.0f;        // of the value: 1 - lr * decay
  float step_size = 0.0f;   // lr / correction1
  float root_scale = 1.0f;  // 1 / sqrt(correction2)
};

}  // namespace cadre::kernels::cpu
