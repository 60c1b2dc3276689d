// The group of all ranks of a run, however they are joined.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/collective.h"
#include "comm/shm.h"
#include "device/memory.h"

namespace cadre::comm {

struct WorldOptions {
  Position position;
  std::string host = {};   // of rank 0
  int port = 0;            // where rank 0 listens
  std::string token = {};  // see rendezvous.h, as is `alike`
  std::string alike = {};
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds wait_timeout = kWaitTimeout;  // of every wait() of the run
  std::function<void(const std::string& line)> log = [](const std::string&) {};
};

// One per process.
struct World {
  std::unique_ptr<ShmHost> shared;  // nothing if this rank is alone on its host
  std::unique_ptr<MemorySource> heap;
  std::unique_ptr<Collective> group;

  // For buffers that are communicated: other ranks of this host work on them where they are.
  MemorySource& memory() const { return shared != nullptr ? shared->memory() : *heap; }
};

// A run of one rank needs nobody: its group is that of one.
Result<World> join_world(const WorldOptions& options);

}  // namespace cadre::comm
