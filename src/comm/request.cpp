#include "comm/request.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "device/memory.h"

namespace cadre::comm {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduceSum:
      return "all_reduce_sum";
    case Operation::kAllReduceMax:
      return "all_reduce_max";
    case Operation::kReduceScatterSum:
      return "reduce_scatter_sum";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kSend:
      return "send";
    case Operation::kReceive:
      return "receive";
    case Operation::kBarrier:
      return "barrier";
  }
  return "unknown operation";
}

std::ostream& operator<<(std::ostream& out, const Request& request) {
  out << name_of(request.operation) << " " << request.sequence;
  if (!request.group.empty()) {
    out << " of " << request.group;
  }
  if (request.is_message()) {
    out << (request.operation == Operation::kSend ? " to rank " : " from rank ") << request.peer;
  }
  if (request.operation != Operation::kBarrier) {
    out << " (" << request.elements() << " " << cadre::name_of(request.dtype()) << ")";
  }
  return out;
}

bool match(const Request& a, const Request& b) {
  if (a.operation != b.operation || a.dtype() != b.dtype()) {
    return false;
  }
  if (a.operation == Operation::kAllToAll) {
    return true;
  }
  return a.elements() == b.elements() && a.peer == b.peer && a.counts == b.counts;
}

Part part_at(const std::vector<int64_t>& counts, int rank) {
  return {.first = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0}),
          .count = counts[static_cast<size_t>(rank)]};
}

Part part_of(const Request& request, Position position) {
  if (!request.is_all_reduce()) {
    return part_at(request.counts, position.rank);
  }
  const int64_t line = kAlignment / bytes_of(request.dtype());
  const int64_t lines = (request.elements() + line - 1) / line;
  const auto begin_of = [&](int64_t rank) {
    return std::min(request.elements(), lines * rank / position.size * line);
  };
  const int64_t first = begin_of(position.rank);
  return {.first = first, .count = begin_of(position.rank + 1) - first};
}

int64_t theoretical_bytes_sent(const Request& request, Position position) {
  const int64_t width = request.operation == Operation::kBarrier ? 0 : bytes_of(request.dtype());
  const int64_t all = request.elements() * width;
  const int64_t others = position.size - 1;
  switch (request.operation) {
    case Operation::kAllReduceSum:
    case Operation::kAllReduceMax: {
      const int64_t own = part_of(request, position).count * width;
      return all - own + own * others;
    }
    case Operation::kReduceScatterSum:
      return all - part_of(request, position).count * width;
    case Operation::kAllGather:
      return part_of(request, position).count * width * others;
    case Operation::kBroadcast:
      return position.rank == request.peer ? all * others : 0;
    case Operation::kAllToAll:
      return all - request.sent_counts[static_cast<size_t>(position.rank)] * width;
    case Operation::kSend:
      return all;
    case Operation::kReceive:
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace cadre::comm
