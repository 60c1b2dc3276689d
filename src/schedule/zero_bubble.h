// Zero-bubble schedules: the backward pass in two halves. Only the gradient of the input holds up
// another rank; the gradients of the weights fill what would be bubble.
//
// Qi, Wan, Huang and Lin 2024, "Zero Bubble Pipeline Parallelism". With R ranks and m
// micro-batches; forward f, backward of the input b, backward of the weights w, per stage.

#pragma once

#include "schedule/pipeline.h"

namespace cadre::schedule {

// ZB-H1: one stage per rank, and no more slots than 1F1B has on its first rank: min(m, R) on every
// rank. The step takes m (f + b + w) + (R - 1)(f + b - w) where f = b = w, or where w is less and m
// at least R; with fewer micro-batches than ranks, (R - m) w more. At f = b = w no schedule of one
// stage per rank ends sooner: the last rank cannot begin before (R - 1) f.
Pipeline zb_h1(const PipelineShape& shape);

// ZB-V: two stages per rank, down the ranks and back up, so that the first rank also has the end of
// the model. At f = b = w the step takes 2m (f + b + w) + (R - 1) f if m = R or m >= 2R - 1: with
// the latter a rank never waits once it has begun. In between it takes up to a seventh more. At
// most min(2m, 2R) slots, each of half a rank's layers, on every rank alike: the memory of ZB-H1
// and of the first rank of 1F1B.
Pipeline zb_v(const PipelineShape& shape);

}  // namespace cadre::schedule
