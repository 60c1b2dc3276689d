// Interleaved 1F1B: each rank holds several thin stages, so that the pipeline fills in less time.
//
// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", section 2.2. With R ranks, v stages each and m micro-batches, forward f and
// backward b per stage (a v-th of a rank's work): the step takes (m v + R - 1)(f + b); the bubble
// is a v-th of that of 1F1B, for v times the messages. Rank r has at most min(m v, (v + 1) R - 2 r
// - 1) slots, each of one thin stage: on rank 0 the activations of R + (R - 1)/v micro-batches.

#pragma once

#include "schedule/pipeline.h"

namespace cadre::schedule {

// Micro-batches are a multiple of ranks: they go through a rank's stages in groups of that size.
Pipeline interleaved_1f1b(const PipelineShape& shape);

}  // namespace cadre::schedule
