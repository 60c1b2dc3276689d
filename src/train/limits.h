// What no machine can train is refused before anything is taken for it: first by a rough estimate
// in floating point, since the exact sums would overflow, then by the ledger of a rehearsal.

#pragma once

#include "base/result.h"
#include "telemetry/ledger.h"
#include "train/engine.h"

namespace cadre::train {

// Refuses sizes whose bytes or operations do not fit the planner's integers: 1e17 bytes in all, or
// 1e18 operations of one kernel, both thousands of times what the largest runs need.
Status check_extent(const EngineSpec& spec);

// Refuses what needs more memory than the system could give without swapping.
Status check_memory(const Ledger& ledger);

}  // namespace cadre::train
