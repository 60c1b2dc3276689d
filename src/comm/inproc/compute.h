// What a call does to the buffers of all ranks, when they are in one process.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/request.h"

namespace cadre::comm {

// `calls` by rank, which match; of a message only those of the two. Returns the bytes that went
// from each rank to others; nothing if an all_to_all sends what another rank does not expect.
std::vector<int64_t> compute(const std::vector<std::optional<Request>>& calls);

}  // namespace cadre::comm
