#include "comm/shm/share.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/reduce.h"

namespace cadre::comm::shm {
namespace {

constexpr int64_t kTileBytes = int64_t{256} << 10;

// Calls body(first byte, bytes) for tiles of [0, bytes).
template <typename Body>
void in_tiles(ThreadPool* threads, int64_t bytes, const Body& body) {
  const int64_t tiles = (bytes + kTileBytes - 1) / kTileBytes;
  const auto tile = [&](int64_t index, int) {
    const int64_t first = index * kTileBytes;
    body(first, std::min(kTileBytes, bytes - first));
  };
  if (threads != nullptr) {
    threads->run(tiles, tile);
    return;
  }
  for (int64_t index = 0; index < tiles; ++index) {
    tile(index, 0);
  }
}

int64_t reduce_own_part(const ShareInput& in) {
  const int64_t width = bytes_of(in.request.dtype());
  const Part part = part_of(in.request, in.position);
  const bool to_all = in.request.is_all_reduce();
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> targets;
  for (int rank = 0; rank < in.position.size; ++rank) {
    std::byte* const bytes = in.buffers[static_cast<size_t>(rank)];
    sources.push_back(bytes);
    if (to_all) {
      targets.push_back(bytes);
    }
    if (rank != in.position.rank) {
      in.took(rank, part.count * width);
    }
  }
  if (!to_all) {
    targets.push_back(in.request.values.data);
  }
  in_tiles(in.threads, part.count * width, [&](int64_t first, int64_t bytes) {
    reduce(in.request.operation, in.request.dtype(), targets, sources,
           {.first = part.first + first / width, .count = bytes / width});
  });
  return to_all ? part.count * width * (in.position.size - 1) : 0;
}

// Copies elements that `from` has at `source` to `target` of this rank's `values`.
void take(const ShareInput& in, int from, const Part& source, int64_t target) {
  const int64_t width = bytes_of(in.request.dtype());
  const std::byte* const begin = in.buffers[static_cast<size_t>(from)] + source.first * width;
  std::byte* const end = in.request.values.data + target * width;
  if (begin == end) {
    return;  // its own part, in place
  }
  in_tiles(in.threads, source.count * width, [&](int64_t first, int64_t bytes) {
    std::memcpy(end + first, begin + first, static_cast<size_t>(bytes));
  });
  if (from != in.position.rank) {
    in.took(from, source.count * width);
  }
}

void gather(const ShareInput& in) {
  for (int rank = 0; rank < in.position.size; ++rank) {
    const Part part = part_at(in.request.counts, rank);
    if (rank != in.position.rank) {
      take(in, rank, part, part.first);
    }
  }
}

int64_t exchange(const ShareInput& in) {
  for (int rank = 0; rank < in.position.size; ++rank) {
    const int64_t* const sent = in.counts[static_cast<size_t>(rank)];
    const Part target = part_at(in.request.counts, rank);
    if (sent[in.position.rank] != target.count) {
      return -1;
    }
    int64_t first = 0;
    for (int other = 0; other < in.position.rank; ++other) {
      first += sent[other];
    }
    take(in, rank, {.first = first, .count = target.count}, target.first);
  }
  return 0;
}

}  // namespace

int64_t do_share(const ShareInput& in) {
  switch (in.request.operation) {
    case Operation::kAllReduceSum:
    case Operation::kAllReduceMax:
    case Operation::kReduceScatterSum:
      return reduce_own_part(in);
    case Operation::kAllGather:
      gather(in);
      return 0;
    case Operation::kBroadcast:
      if (in.position.rank != in.request.peer) {
        take(in, in.request.peer, {.first = 0, .count = in.request.elements()}, 0);
      }
      return 0;
    case Operation::kAllToAll:
      return exchange(in);
    case Operation::kSend:
    case Operation::kReceive:
    case Operation::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace cadre::comm::shm
