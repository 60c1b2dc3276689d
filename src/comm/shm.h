// Processes of one host, joined by memory that they share. The memory has no name in any file
// system: it is passed over a Unix socket and gone with the last process, however that ends.

#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/collective.h"
#include "device/memory.h"

namespace cadre::comm {

inline constexpr std::chrono::milliseconds kWaitTimeout{30'000};

struct ShmOptions {
  Position position;    // among the ranks of this host, at most kShmRanksMax
  std::string address;  // any text of up to 100 letters that all ranks have alike and nobody else
  std::chrono::milliseconds timeout = kWaitTimeout;  // of joining, and of every wait() afterwards
};

inline constexpr int kShmRanksMax = 128;

// A rank's part in the shared memory of its host.
//
// Whatever stops one rank stops all within moments: a wait beyond the timeout, calls that differ, a
// process that dies, a Pending that is given up. Each then throws a StepError from the call or
// wait() it is in: what went wrong, and what each rank called last.
class ShmHost {
 public:
  virtual ~ShmHost() = default;

  // Returns when all ranks have joined.
  static Result<std::unique_ptr<ShmHost>> join(const ShmOptions& options);

  // The group of all ranks of the host. It and what is split from it may outlive the ShmHost.
  virtual std::unique_ptr<Collective> world() = 0;  // to be called once

  // Buffers in this memory are read and written by the other ranks where they are. All others are
  // copied into it and back. Outlives what is taken from it; used by the rank's thread only.
  virtual MemorySource& memory() = 0;
};

}  // namespace cadre::comm
