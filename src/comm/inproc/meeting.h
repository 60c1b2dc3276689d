// Where the threads of a group meet, once per call. The last to arrive computes for all, so that a
// rank may wait for its calls in any order and no buffer is overwritten while another rank reads.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/request.h"

namespace cadre::comm {

// What the threads share over all their groups: whatever stops one rank stops all.
class Family {
 public:
  Family(int size, std::chrono::milliseconds timeout_of_waits)
      : timeout(timeout_of_waits), ranks(static_cast<size_t>(size)) {}

  // Under the mutex:
  void fail(const std::string& reason);  // adds what each rank did last
  void throw_if_failed() const;

  struct Rank {
    std::optional<Request> last_call;
    int groups = 1;  // that the rank still holds
    bool has_ended() const { return groups == 0; }
  };

  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Rank> ranks;
  std::string failure;  // once set, every rank throws it
};

// One group. Ranks are those of the group; messages name those of the family.
class MeetingPlace {
 public:
  // The call of a group, or a message of a pair of ranks: (-1, -1, sequence), (from, to, sequence).
  using Key = std::tuple<int, int, int64_t>;

  MeetingPlace(std::shared_ptr<Family> family, std::vector<int> members)
      : family_(std::move(family)), members_(std::move(members)) {}

  Key key_of(int rank, const Request& request) const;

  // Computes if this rank is the last.
  void arrive(int rank, const Request& request);

  // Returns the bytes that this rank has sent, when all have arrived.
  int64_t leave(int rank, const Key& key);

  // The buffer of a call that is not waited for may be gone at once.
  void give_up(int rank, const Key& key);

  // The rank will never come again to this group. One that has left all has ended.
  void end(int rank);

  struct Part {
    int64_t split = 0;  // the how-manieth split of this group
    int colour = 0;
    std::vector<int> members;
  };
  // The same place for every rank that asks for the same part; `rank` then holds one group more.
  std::shared_ptr<MeetingPlace> place_for(int rank, const Part& part);

 private:
  struct Meeting {
    std::vector<std::optional<Request>> calls;  // by rank
    std::vector<int64_t> bytes_sent;            // by rank
    size_t expected = 0;                        // ranks
    size_t arrived = 0;
    size_t left = 0;
  };

  std::vector<int> expected_at(const Key& key) const;  // ranks of the group
  int missing(const Key& key, bool ended) const;
  int in_family(int rank) const { return members_[static_cast<size_t>(rank)]; }
  Family::Rank& state_of(int rank) const {
    return family_->ranks[static_cast<size_t>(in_family(rank))];
  }

  std::shared_ptr<Family> family_;   // owned by every place of it
  std::vector<int> members_;         // ranks of the family
  std::map<Key, Meeting> meetings_;  // those that some rank has not left
  std::map<std::pair<int64_t, int>, std::shared_ptr<MeetingPlace>>
      parts_;  // owned by their members too
};

}  // namespace cadre::comm
