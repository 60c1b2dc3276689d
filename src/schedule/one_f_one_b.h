// 1F1B: after a few forwards, each rank does one forward and one backward in turn, so that a slot
// is free again as soon as it can be.
//
// PipeDream-Flush (Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training"; called
// 1F1B with flush in Megatron-LM, Narayanan et al. 2021, "Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM"). With R ranks and m micro-batches, forward f and
// backward b per stage: the step takes (m + R - 1)(f + b), as with GPipe, but rank r needs only
// min(m, R - r) slots.

#pragma once

#include "schedule/pipeline.h"

namespace cadre::schedule {

// One stage per rank.
Pipeline one_f_one_b(const PipelineShape& shape);

}  // namespace cadre::schedule
