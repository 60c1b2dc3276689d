// Request: one call of a collective, as the transports see it.

#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace cadre::comm {

enum class Operation {
  kAllReduceSum,
  kAllReduceMax,
  kReduceScatterSum,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kSend,
  kReceive,
  kBarrier,
};

std::string_view name_of(Operation operation);

struct Position {
  int rank = 0;
  int size = 1;
};

// Elements [first, first + count) of a packed buffer.
struct Part {
  int64_t first = 0;
  int64_t count = 0;
};

struct Request {
  Operation operation = Operation::kBarrier;
  std::string_view group = {};  // the group's name
  int64_t sequence = 0;         // from 0, of the group's collectives, or of the messages that go
                                // from the one rank to the other
  Tensor values = {};           // worked on in place; what is received
  ConstTensor sent = {};        // of kSend and kAllToAll
  int peer = -1;                // of kSend and kReceive; the root of kBroadcast
  std::vector<int64_t> counts = {};  // elements by rank: of kReduceScatterSum and kAllGather the
                                     // parts of `values`, of kAllToAll what comes from each
  std::vector<int64_t> sent_counts = {};  // of kAllToAll: what goes to each

  bool is_message() const {
    return operation == Operation::kSend || operation == Operation::kReceive;
  }
  bool is_all_reduce() const {
    return operation == Operation::kAllReduceSum || operation == Operation::kAllReduceMax;
  }
  // What this rank brings: of kAllToAll and kSend, `sent`.
  ConstTensor brought() const {
    const bool sends = operation == Operation::kSend || operation == Operation::kAllToAll;
    return sends ? sent : ConstTensor(values);
  }
  int64_t elements() const {
    return operation == Operation::kBarrier ? 0 : brought().shape.elements();
  }
  DType dtype() const { return brought().dtype; }
};

// "all_reduce_sum 12 of data (4096 f32)", "send 3 to rank 1 (5 bf16)"
std::ostream& operator<<(std::ostream& out, const Request& request);

// Whether two ranks of a group make the same call. (What each sends in an all_to_all is its own
// matter, until it meets what the other expects.)
bool match(const Request& a, const Request& b);

// The part of `counts`, laid out one behind the other, that belongs to `rank`.
Part part_at(const std::vector<int64_t>& counts, int rank);

// The part of the buffer that `rank` reduces (kAllReduce*, kReduceScatterSum) or brings
// (kAllGather). Those of an all-reduce begin at multiples of kAlignment bytes, so that no two ranks
// write to one line of a cache.
Part part_of(const Request& request, Position position);

// What the rank sends to others when every part goes straight to whom it is for: an all-reduce
// is a reduce-scatter and an all-gather. The transports count for themselves; this is the theory.
int64_t theoretical_bytes_sent(const Request& request, Position position);

}  // namespace cadre::comm
