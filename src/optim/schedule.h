// Learning rate: a closed form of the step, so that a resumed run needs no state.

#pragma once

#include <cstdint>

#include "spec/training.h"

namespace cadre::optim {

// Of step `step` (from 0) of `total_steps`. With w steps of warm-up, peak r and floor m r:
//
//   warm-up    step < w:  r (step + 1) / w                  so the first step moves, the w-th peaks
//   then, with t = (step - w) / (total - w):
//   constant   r
//   linear     r (m + (1 - m) (1 - t))
//   cosine     r (m + (1 - m) (1 + cos(pi t)) / 2)          (Loshchilov and Hutter, 2017)
//   warmup-stable-decay, the last d steps: r (m + (1 - m) (total - step) / d), before them r
//
// The floor is approached, not reached: the step after the last would have it.
double learning_rate_at(const ScheduleSpec& spec, int64_t step, int64_t total_steps);

// Steps of warm-up, and of the decay at the end (warmup-stable-decay; a tenth if nothing is said).
int64_t warmup_steps_of(const ScheduleSpec& spec, int64_t total_steps);
int64_t decay_steps_of(const ScheduleSpec& spec, int64_t total_steps);

}  // namespace cadre::optim
