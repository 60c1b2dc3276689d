// Plays the lists of a pipeline against a clock: how long the step takes, and who waits.
//
// The model is that of the executor. A rank computes one thing at a time, in the order of its list.
// Opening a receive and beginning a send take no time of the rank (Costs::blocking_sends aside). A
// message travels as soon as both ends have come to it and the message before it, between the same
// two ranks in the same direction, has arrived. A computation begins when its rank is free and what
// it reads has arrived.

#pragma once

#include <vector>

#include "base/result.h"
#include "schedule/pipeline.h"

namespace cadre::schedule {

// Of one micro-batch on one stage. The unit is the caller's: seconds, or 1 for each.
struct StageCosts {
  double forward = 0.0;
  double backward_input = 0.0;
  double backward_weight = 0.0;
  double backward = 0.0;  // both together: may be less than the sum of the halves
};

struct Costs {
  std::vector<StageCosts> stages;
  std::vector<double> messages;  // between stages s and s+1, in either direction; size: stages - 1
  // A send holds up its rank until the message has arrived: for transports that cannot let go of a
  // tensor, and to see that waiting early for a send cannot hang.
  bool blocking_sends = false;

  double of(const Instruction& computation) const;
};

// The same on every stage; both halves together cost their sum.
struct UniformCosts {
  double forward = 1.0;
  double backward_input = 1.0;
  double backward_weight = 1.0;
  double message = 0.0;
};
Costs uniform(int64_t stages, const UniformCosts& costs);

struct Span {
  double begin = 0.0;
  double end = 0.0;  // of a message: when it has arrived
};

struct RankTimes {
  double begin = 0.0;   // of its first computation
  double end = 0.0;     // of its last
  double busy = 0.0;    // in computations
  double bubble = 0.0;  // the rest of the step
};

struct Playing {
  double makespan = 0.0;  // from the first computation of any rank to the last
  std::vector<RankTimes> ranks;
  std::vector<std::vector<Span>> spans;  // by rank and instruction

  // The part of the step that an average rank does not compute: 0 is ideal.
  double bubble_fraction() const;
};

// An error: the lists are not a whole step (check()), or the ranks wait for each other for ever;
// then it says which instruction each of them stands at.
Result<Playing> play(const Pipeline& pipeline, const Costs& costs);

}  // namespace cadre::schedule
