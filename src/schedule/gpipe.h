// GPipe (Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline
// Parallelism"): all forwards of the step, then all backwards.
//
// With R ranks and m micro-batches, forward f and backward b per stage: the step takes
// (m + R - 1)(f + b), of which (R - 1)/(m + R - 1) is bubble; m slots.

#pragma once

#include "schedule/pipeline.h"

namespace cadre::schedule {

// One stage per rank. Backward goes through the micro-batches from the first to the last (the
// paper's figure: from the last), so that gradients add up in the order of one process.
Pipeline gpipe(const PipelineShape& shape);

}  // namespace cadre::schedule
