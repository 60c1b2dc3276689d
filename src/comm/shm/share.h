// A rank's share of one collective, when all have posted it: reads and writes of the memory of all.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "comm/request.h"
#include "device/thread_pool.h"

namespace cadre::comm::shm {

struct ShareInput {
  const Request& request;
  Position position;
  std::span<std::byte* const> buffers;     // by rank: where each buffer begins, in this process
  std::span<const int64_t* const> counts;  // by rank: an all_to_all's counts by receiver
  ThreadPool* threads = nullptr;           // nullptr: this thread alone
  std::function<void(int from, int64_t bytes)>
      took;  // called for what was read of another's buffer
};

// Returns the bytes written into the buffers of others; -1 if an all_to_all does not match.
int64_t do_share(const ShareInput& input);

}  // namespace cadre::comm::shm
