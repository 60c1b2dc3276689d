#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cadre::optim {
namespace {

int64_t share_of(double ratio, int64_t total_steps) {
  return static_cast<int64_t>(std::ceil(ratio * static_cast<double>(total_steps) - 1e-9));
}

}  // namespace

int64_t warmup_steps_of(const ScheduleSpec& spec, int64_t total_steps) {
  if (spec.warmup_steps) {
    return *spec.warmup_steps;
  }
  return spec.warmup_ratio ? share_of(*spec.warmup_ratio, total_steps) : 0;
}

int64_t decay_steps_of(const ScheduleSpec& spec, int64_t total_steps) {
  if (spec.decay_steps) {
    return *spec.decay_steps;
  }
  return share_of(spec.decay_ratio.value_or(0.1), total_steps);
}

double learning_rate_at(const ScheduleSpec& spec, int64_t step, int64_t total_steps) {
  const double peak = spec.learning_rate;
  const int64_t warmup = warmup_steps_of(spec, total_steps);
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const auto between = [&](double share) {
    return peak * (spec.min_lr_ratio + (1.0 - spec.min_lr_ratio) * share);
  };
  const int64_t rest = total_steps - warmup;
  const double t =
      rest > 0 ? std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(rest))
               : 1.0;
  switch (spec.kind) {
    case ScheduleKind::kConstant:
      return peak;
    case ScheduleKind::kLinear:
      return between(1.0 - t);
    case ScheduleKind::kCosine:
      return between(0.5 * (1.0 + std::cos(std::numbers::pi * t)));
    case ScheduleKind::kWarmupStableDecay: {
      const int64_t decay = decay_steps_of(spec, total_steps);
      const int64_t left = std::max<int64_t>(0, total_steps - step);
      return left > decay || decay == 0
                 ? peak
                 : between(static_cast<double>(left) / static_cast<double>(decay));
    }
  }
  return peak;
}

}  // namespace cadre::optim
