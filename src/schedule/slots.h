// How much a rank holds at once while it runs its list: what the executor makes room for.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/pipeline.h"

namespace cadre::schedule {

// The most at any moment, in micro-batches of one stage. The three maxima may lie at different
// moments, so that `slots` can be less than the sum of the other two.
struct InFlight {
  int64_t slots = 0;          // between forward and the end of both halves of the backward pass
  int64_t before_input = 0;   // of these, those whose backward_input has not ended
  int64_t before_weight = 0;  // of these, those that wait for backward_weight alone
  int64_t receives = 0;       // receives that are open: from the instruction until it has been read

  bool operator==(const InFlight&) const = default;
};

// Of all stages of a rank together, or of one of them.
InFlight in_flight(const std::vector<Instruction>& list,
                   std::optional<int64_t> stage = std::nullopt);

}  // namespace cadre::schedule
