// Whether the lists of a pipeline are a whole step, without playing them.

#pragma once

#include "base/result.h"
#include "schedule/pipeline.h"

namespace cadre::schedule {

// An error names the rank, the instruction and what is wrong with it. Checked are:
//   - every stage is on a rank, and every instruction on the rank of its stage;
//   - each micro-batch runs once forward and once backward on every stage: either kBackward, or
//     both kBackwardInput and kBackwardWeight;
//   - no backward comes before its forward, no weights before the input;
//   - what a computation reads was received, or made by the neighbouring stage, earlier in the
//   list;
//   - what another rank needs is sent once, after it was made, to the right stage;
//   - from one rank to another, messages are received in the order in which they are sent.
// That the ranks do not wait for each other in a circle is found by play().
Status check(const Pipeline& pipeline);

}  // namespace cadre::schedule
