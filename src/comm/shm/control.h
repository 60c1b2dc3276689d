// What the ranks of one host tell each other: the layout of the shared memory for control. Zeroes
// are a valid beginning of everything here.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/shm.h"

namespace cadre::comm::shm {

inline constexpr int kSlots = 32;         // collectives of one group that may be in flight
inline constexpr int kMessageSlots = 16;  // messages from one rank to another
inline constexpr int64_t kGroupsMax = 1024;

using Word = std::atomic<uint32_t>;
using Count = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && Count::is_always_lock_free);

// One call, without its buffers.
struct Note {
  int32_t operation = 0;
  int32_t dtype = 0;
  int32_t peer = 0;
  char group[20] = {};  // cut off where it is longer; ends with 0
  int64_t sequence = 0;
  int64_t elements = 0;
  uint64_t counts_hash = 0;
};

enum class Phase : uint32_t { kAbsent, kJoined, kLeft };

struct alignas(64) RankState {
  Word bell;             // a futex: counts what might interest the rank
  Word parked;           // 1: the rank sleeps, or is about to, until the bell changes
  Word phase;            // a Phase
  Word calls;            // made so far
  uint64_t process = 0;  // the same for ranks that are threads of one process
  Note last_call;        // read by who fails, perhaps half written: only for a message
};

// One rank's side of one collective, or the sender's of a message. `posted` and `done` are the
// sequence + 1 of the latest call that has come so far; they only grow.
struct alignas(64) Slot {
  Count posted;       // everything below is valid
  Count done;         // the rank has done its share, and reads no more of the others' memory
  Count bytes_taken;  // that others have read from the buffer
  Note note;
  int64_t offset = 0;         // of the buffer, in the rank's data memory
  int64_t counts_offset = 0;  // of an all_to_all's counts by receiver
  int64_t value = 0;          // of rank 0 in a split: the number of the first new group
};

struct Failure {
  Word state;  // 0 none, 1 is being written, 2 is there
  char text[4092] = {};
};

struct Header {
  Failure failure;
  alignas(64) Count groups;  // given out; the world is the first
  RankState ranks[kShmRanksMax];
};

// A group has kSlots slots for each member, then kMessageSlots for each ordered pair.
inline int64_t slots_of_group(int64_t size) {
  return size * kSlots + size * size * kMessageSlots;
}

// Every group has room for all ranks, of which the kernel gives only the pages that are touched.
inline int64_t bytes_of_control(int64_t ranks) {
  return static_cast<int64_t>(sizeof(Header)) +
         kGroupsMax * slots_of_group(ranks) * static_cast<int64_t>(sizeof(Slot));
}

}  // namespace cadre::comm::shm
