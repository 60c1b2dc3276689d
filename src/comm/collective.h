// Collective: what may be asked of a group of ranks.
//
// Every call is asynchronous: it returns a Pending, and the buffer belongs to the transport until
// wait() returns. All ranks of a group make the same collective calls in the same order, and any
// two ranks the messages between them; they may wait in any order. A group outlives what is in
// flight in it. All groups that come from one by split() are used by one thread per rank.
//
// A group of one has nothing to do: it books, sends and copies nothing, except that an all_to_all
// copies what the rank sends to itself.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/request.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::comm {

// A collective in flight. (On a device with streams wait() holds up the stream, not the host.)
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing to wait for
  explicit Pending(std::function<void()> finish) : finish_(std::move(finish)) {}
  Pending(Pending&& other) noexcept : finish_(std::exchange(other.finish_, nullptr)) {}
  Pending& operator=(Pending&&) = delete;

  // A StepError that passes by abandons the step, and what is in flight with it.
  ~Pending() {
    CADRE_CHECK(!finish_ || std::uncaught_exceptions() > 0, "a collective was never waited for");
  }

  void wait() {
    if (finish_) {
      std::exchange(finish_, nullptr)();
    }
  }

 private:
  std::function<void()> finish_;
};

// Where a rank goes in a split: to the group of its colour (any number from 0), which it enters by
// key, and among equal keys by rank.
struct Place {
  int colour = 0;
  int key = 0;
};

class Collective {
 public:
  // `name` is a string literal, for messages and the trace: "tensor".
  explicit Collective(Position position, std::string_view name = {})
      : position_(position), name_(name) {}
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  int rank() const { return position_.rank; }
  int size() const { return position_.size; }
  std::string_view name() const { return name_; }

  // Payload that this rank has sent to other ranks in this group so far, as the transport counted
  // it; in a rehearsal, theoretical_bytes_sent().
  int64_t bytes_sent() const { return bytes_sent_; }

  // Replaces `values`, on every rank, by their sum in rank order: the same bits on every rank and
  // in every run. (Narrow floats are added in fp32 and rounded once.)
  Pending all_reduce_sum(Context& context, Tensor values);

  // The same with the largest value instead of the sum.
  Pending all_reduce_max(Context& context, Tensor values);

  // `values` is laid out by rank: counts[r] elements, the part of rank r, one behind the other.
  // counts are the same on every rank; a count may be 0.
  // Replaces this rank's part by the sum of that part over all ranks, in rank order. The other
  // parts are unspecified afterwards.
  Pending reduce_scatter_sum(Context& context, Tensor values, std::span<const int64_t> counts);
  // Fills the parts of the other ranks with what each has in its own.
  Pending all_gather(Context& context, Tensor values, std::span<const int64_t> counts);

  // Replaces `values` by those of rank `root`.
  Pending broadcast(Context& context, Tensor values, int root);

  struct Exchange {
    std::span<const int64_t> sent;      // elements to each rank, from `sent` in rank order
    std::span<const int64_t> received;  // elements from each rank, into `received` in rank order
  };
  // The two buffers do not overlap.
  Pending all_to_all(Context& context, Tensor received, ConstTensor sent, const Exchange& counts);

  // One message to or from another rank of the group. Messages between two ranks arrive in order.
  // A send may be held up until the other has called receive(): call both before waiting.
  Pending send(Context& context, ConstTensor values, int peer);
  Pending receive(Context& context, Tensor values, int peer);

  // Returns when every rank has called it.
  void barrier(Context& context);

  // Every rank of this group calls it, with the same `places`: one for each rank of this group.
  // Returns the group that this rank is in. `name` is a string literal.
  std::unique_ptr<Collective> split(std::string_view name, std::span<const Place> places);

 protected:
  // Which ranks of the old group, in order, are the new one. Colours count from 0.
  struct Split {
    std::string_view name;
    std::vector<int> members;  // of this rank's new group
    int colour = 0;            // renumbered: the how-manieth of the groups that are made
    int groups = 0;            // that are made
    Position position;         // in the new group
    int64_t sequence = 0;      // among the collectives of this group
  };

  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }

 private:
  Pending start_checked(Context& context, Request request);

  // The group has at least two ranks, and the buffers have been checked.
  virtual Pending start(Context& context, const Request& request) = 0;
  virtual std::unique_ptr<Collective> make_split(const Split& split) = 0;

  Position position_;
  std::string_view name_;
  int64_t bytes_sent_ = 0;
  int64_t next_collective_ = 0;
  std::vector<int64_t> next_sent_;      // by peer
  std::vector<int64_t> next_received_;  // by peer
};

// The transports, each in its own folder.
std::unique_ptr<Collective> make_recorded(
    Position position, std::string_view name = {});  // for meta, and the group of one

}  // namespace cadre::comm
