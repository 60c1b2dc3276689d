// The engine of one rank: what it has in flight in all its groups, and how it waits.
//
// A call is posted; once all have posted it each rank does its share of the work, and it is over
// when all have done theirs. A rank that waits for one call moves all that it has in flight, so
// ranks may wait in different orders. It spins for a moment and then sleeps on its bell.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/shm/control.h"
#include "comm/shm/memory.h"

namespace cadre::comm::shm {

struct Group {
  int64_t number = 0;        // of its slots
  int rank = 0;              // of this process
  std::vector<int> members;  // ranks of the host

  int size() const { return static_cast<int>(members.size()); }
};

// A call from its start until it is over.
struct Flight {
  const Group* group = nullptr;
  ThreadPool* threads = nullptr;
  Request request;
  Slot* slot = nullptr;         // this rank's; of a message, the sender's
  std::byte* stage = nullptr;   // where the buffer is copied, if it is not in shared memory
  std::byte* counts = nullptr;  // the stage of an all_to_all's counts
  bool share_done = false;
  bool over = false;
  int64_t bytes_sent = 0;
  int64_t value = 0;  // posted, then replaced by rank 0's: of a split
};

class Engine {
 public:
  Engine(const ShmOptions& options, Shared shared);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  DataMemory& memory() { return memory_; }

  // Numbers for `count` new groups; one rank asks, and tells the others.
  int64_t take_groups(int64_t count);

  // The flight refers to `group`, which outlives it. `value` goes to all from rank 0.
  std::shared_ptr<Flight> start(const Group& group, ThreadPool* threads, const Request& request,
                                int64_t value = 0);
  void wait(Flight& flight);
  void give_up(Flight& flight);

 private:
  friend class Share;

  Header& header() const { return *reinterpret_cast<Header*>(shared_.control.data()); }
  RankState& state(int host_rank) const { return header().ranks[host_rank]; }
  Slot& slot(const Group& group, int rank, int64_t sequence) const;
  Slot& message_slot(const Group& group, int from, int to, int64_t sequence) const;

  void make_room(const Flight& flight);
  void post(Flight& flight);
  bool try_to_move(Flight& flight);
  bool move_message(Flight& flight);
  bool move_collective(Flight& flight);
  void finish(Flight& flight);
  void move_all();

  void ring(int host_rank);
  void ring_others(const Group& group);
  void sleep(uint32_t bell);
  void look_around(const Flight& flight, std::chrono::steady_clock::time_point deadline);
  int missing(const Flight& flight) const;

  [[noreturn]] void fail(const std::string& reason);
  void set_failure(const std::string& reason);
  void throw_if_failed();
  std::string last_calls() const;
  bool is_alive(int host_rank) const;

  ShmOptions options_;
  Shared shared_;
  DataMemory memory_;
  bool spins_;                                    // every rank has a core
  std::vector<std::shared_ptr<Flight>> flights_;  // not over; owned by their Pending too
};

}  // namespace cadre::comm::shm
