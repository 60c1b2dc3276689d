// What all transports share: checks, booking and numbering of calls.

#include "comm/collective.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

namespace cadre::comm {
namespace {

int64_t sum_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void check_counts(std::span<const int64_t> counts, int size, int64_t elements) {
  CADRE_CHECK_EQ(static_cast<int>(counts.size()), size);
  CADRE_CHECK(std::ranges::all_of(counts, [](int64_t count) { return count >= 0; }));
  CADRE_CHECK_EQ(sum_of(counts), elements);
}

std::vector<int64_t> copy_of(std::span<const int64_t> counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

Pending Collective::all_reduce_sum(Context& context, Tensor values) {
  return start_checked(context, {.operation = Operation::kAllReduceSum, .values = values});
}

Pending Collective::all_reduce_max(Context& context, Tensor values) {
  return start_checked(context, {.operation = Operation::kAllReduceMax, .values = values});
}

Pending Collective::reduce_scatter_sum(Context& context, Tensor values,
                                       std::span<const int64_t> counts) {
  check_counts(counts, size(), values.shape.elements());
  return start_checked(
      context,
      {.operation = Operation::kReduceScatterSum, .values = values, .counts = copy_of(counts)});
}

Pending Collective::all_gather(Context& context, Tensor values, std::span<const int64_t> counts) {
  check_counts(counts, size(), values.shape.elements());
  return start_checked(
      context, {.operation = Operation::kAllGather, .values = values, .counts = copy_of(counts)});
}

Pending Collective::broadcast(Context& context, Tensor values, int root) {
  CADRE_CHECK(0 <= root && root < size(), root, " of ", size());
  return start_checked(context,
                       {.operation = Operation::kBroadcast, .values = values, .peer = root});
}

Pending Collective::all_to_all(Context& context, Tensor received, ConstTensor sent,
                               const Exchange& counts) {
  check_counts(counts.sent, size(), sent.shape.elements());
  check_counts(counts.received, size(), received.shape.elements());
  const auto own = static_cast<size_t>(rank());
  CADRE_CHECK_EQ(counts.sent[own], counts.received[own]);
  CADRE_CHECK(sent.dtype == received.dtype && sent.packed(), "shape ", sent.shape, ", strides ",
              sent.strides);
  if (size() == 1 && !context.is_meta() && sent.bytes() > 0) {
    std::memcpy(received.data, sent.data, static_cast<size_t>(sent.bytes()));
  }
  return start_checked(context, {.operation = Operation::kAllToAll,
                                 .values = received,
                                 .sent = sent,
                                 .counts = copy_of(counts.received),
                                 .sent_counts = copy_of(counts.sent)});
}

Pending Collective::send(Context& context, ConstTensor values, int peer) {
  CADRE_CHECK(0 <= peer && peer < size() && peer != rank(), peer, " of ", size());
  CADRE_CHECK(values.packed(), "shape ", values.shape, ", strides ", values.strides);
  return start_checked(context, {.operation = Operation::kSend, .sent = values, .peer = peer});
}

Pending Collective::receive(Context& context, Tensor values, int peer) {
  CADRE_CHECK(0 <= peer && peer < size() && peer != rank(), peer, " of ", size());
  return start_checked(context, {.operation = Operation::kReceive, .values = values, .peer = peer});
}

void Collective::barrier(Context& context) {
  start_checked(context, {.operation = Operation::kBarrier}).wait();
}

Pending Collective::start_checked(Context& context, Request request) {
  if (size() == 1) {
    return {};
  }
  CADRE_CHECK(request.values.packed(), "shape ", request.values.shape, ", strides ",
              request.values.strides);
  request.group = name_;
  if (request.is_message()) {
    std::vector<int64_t>& next =
        request.operation == Operation::kSend ? next_sent_ : next_received_;
    next.resize(static_cast<size_t>(size()));
    request.sequence = next[static_cast<size_t>(request.peer)]++;
  } else {
    request.sequence = next_collective_++;
  }
  context.trace.book(BookedMessage{.name = comm::name_of(request.operation),
                                   .bytes = request.elements() * bytes_of(request.dtype()),
                                   .group_size = size(),
                                   .group = name_,
                                   .peer = request.peer});
  return start(context, request);
}

std::unique_ptr<Collective> Collective::split(std::string_view name,
                                              std::span<const Place> places) {
  CADRE_CHECK_EQ(static_cast<int>(places.size()), size());
  std::set<int> colours;
  for (const Place& place : places) {
    CADRE_CHECK(place.colour >= 0, "colour ", place.colour);
    colours.insert(place.colour);
  }
  const Place& own = places[static_cast<size_t>(rank())];
  Split result{.name = name,
               .members = {},
               .colour = static_cast<int>(std::distance(colours.begin(), colours.find(own.colour))),
               .groups = static_cast<int>(colours.size()),
               .position = {}};
  for (int member = 0; member < size(); ++member) {
    if (places[static_cast<size_t>(member)].colour == own.colour) {
      result.members.push_back(member);
    }
  }
  std::ranges::stable_sort(result.members, {},
                           [&](int member) { return places[static_cast<size_t>(member)].key; });
  const auto place = std::ranges::find(result.members, rank());
  result.position = {.rank = static_cast<int>(std::distance(result.members.begin(), place)),
                     .size = static_cast<int>(result.members.size())};
  result.sequence = next_collective_++;
  return make_split(result);
}

}  // namespace cadre::comm
