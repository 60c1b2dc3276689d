#include "comm/inproc/compute.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "comm/reduce.h"

namespace cadre::comm {
namespace {

using Calls = std::vector<std::optional<Request>>;

class Computation {
 public:
  explicit Computation(const Calls& calls)
      : calls_(calls), size_(static_cast<int>(calls.size())), sent_(calls.size()) {}

  std::vector<int64_t> take_sent() { return std::move(sent_); }

  // Every part is reduced by its owner, who gives the result to `targets`: itself or all.
  void reduce_parts(bool to_all) {
    for (int owner = 0; owner < size_; ++owner) {
      const Request& request = at(owner);
      const Part part = part_of(request, {.rank = owner, .size = size_});
      const int64_t width = bytes_of(request.dtype());
      std::vector<const std::byte*> sources;
      std::vector<std::byte*> targets;
      for (int rank = 0; rank < size_; ++rank) {
        std::byte* const bytes = at(rank).values.data;
        sources.push_back(bytes);
        book(rank, owner, part.count * width);
        if (to_all || rank == owner) {
          targets.push_back(bytes);
          book(owner, rank, part.count * width);
        }
      }
      reduce(request.operation, request.dtype(), targets, sources, part);
    }
  }

  void gather_parts() {
    for (int owner = 0; owner < size_; ++owner) {
      const Part part = part_of(at(owner), {.rank = owner, .size = size_});
      for (int rank = 0; rank < size_; ++rank) {
        copy({.from = owner,
              .to = rank,
              .first_from = part.first,
              .first_to = part.first,
              .count = part.count});
      }
    }
  }

  void broadcast() {
    const int root = at(0).peer;
    for (int rank = 0; rank < size_; ++rank) {
      copy(
          {.from = root, .to = rank, .first_from = 0, .first_to = 0, .count = at(root).elements()});
    }
  }

  // False where a rank sends what the other does not expect; then nothing has been copied.
  bool exchange() {
    for (int from = 0; from < size_; ++from) {
      for (int to = 0; to < size_; ++to) {
        if (at(from).sent_counts[static_cast<size_t>(to)] !=
            at(to).counts[static_cast<size_t>(from)]) {
          return false;
        }
      }
    }
    for (int from = 0; from < size_; ++from) {
      for (int to = 0; to < size_; ++to) {
        const Part sent = part_at(at(from).sent_counts, to);
        copy({.from = from,
              .to = to,
              .first_from = sent.first,
              .first_to = part_at(at(to).counts, from).first,
              .count = sent.count});
      }
    }
    return true;
  }

  void deliver() {
    for (int rank = 0; rank < size_; ++rank) {
      const std::optional<Request>& call = calls_[static_cast<size_t>(rank)];
      if (call && call->operation == Operation::kSend) {
        copy({.from = rank,
              .to = call->peer,
              .first_from = 0,
              .first_to = 0,
              .count = call->elements()});
      }
    }
  }

 private:
  struct Copy {
    int from = 0;
    int to = 0;
    int64_t first_from = 0;
    int64_t first_to = 0;
    int64_t count = 0;  // elements
  };

  const Request& at(int rank) const { return *calls_[static_cast<size_t>(rank)]; }

  void book(int from, int to, int64_t bytes) {
    sent_[static_cast<size_t>(from)] += from == to ? 0 : bytes;
  }

  void copy(const Copy& copy) {
    const int64_t width = bytes_of(at(copy.from).dtype());
    const std::byte* const source = at(copy.from).brought().data + copy.first_from * width;
    std::byte* const target = at(copy.to).values.data + copy.first_to * width;
    if (source != target && copy.count > 0) {
      std::memcpy(target, source, static_cast<size_t>(copy.count * width));
    }
    book(copy.from, copy.to, copy.count * width);
  }

  const Calls& calls_;
  int size_;
  std::vector<int64_t> sent_;
};

Operation operation_of(const Calls& calls) {
  for (const std::optional<Request>& call : calls) {
    if (call) {
      return call->operation;
    }
  }
  return Operation::kBarrier;
}

}  // namespace

std::vector<int64_t> compute(const Calls& calls) {
  Computation computation(calls);
  switch (operation_of(calls)) {
    case Operation::kAllReduceSum:
    case Operation::kAllReduceMax:
      computation.reduce_parts(true);
      break;
    case Operation::kReduceScatterSum:
      computation.reduce_parts(false);
      break;
    case Operation::kAllGather:
      computation.gather_parts();
      break;
    case Operation::kBroadcast:
      computation.broadcast();
      break;
    case Operation::kAllToAll:
      if (!computation.exchange()) {
        return {};
      }
      break;
    case Operation::kSend:
    case Operation::kReceive:
      computation.deliver();
      break;
    case Operation::kBarrier:
      break;
  }
  return computation.take_sent();
}

}  // namespace cadre::comm
