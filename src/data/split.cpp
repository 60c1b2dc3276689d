#include "data/split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace cadre::data {
namespace {

struct Hashes {
  uint64_t smallest = UINT64_MAX;
  uint64_t largest = 0;

  bool differ() const { return smallest < largest; }
};

Hashes hashes_of(std::span<const std::span<const TokenShard>> sources) {
  Hashes hashes;
  for (const std::span<const TokenShard> shards : sources) {
    for (const TokenShard& shard : shards) {
      shard.visit_documents([&](size_t, const DocumentEntry& entry, int64_t) {
        hashes.smallest = std::min(hashes.smallest, entry.hash);
        hashes.largest = std::max(hashes.largest, entry.hash);
      });
    }
  }
  return hashes;
}

// The last hash that validates, so that both sides have a document if there are two.
uint64_t last_validating_hash(const Hashes& hashes, double fraction) {
  // Below 2^64, since the largest double below 1 is 1 - 2^-53.
  const auto limit = static_cast<uint64_t>(std::ldexp(fraction, 64));
  const uint64_t last = limit == 0 ? 0 : limit - 1;
  return hashes.differ() ? std::clamp(last, hashes.smallest, hashes.largest - 1) : last;
}

// How many tokens of a document train, of the `tokens` that begin at `begin` in the shard.
int64_t head_of(const TokenShard& shard, int64_t begin, int64_t tokens,
                const SplitOptions& options) {
  constexpr int64_t kOneTarget = 2;  // tokens: one is predicted from the other
  constexpr int64_t kReachMax = int64_t{1} << 16;
  const int64_t share = std::llround(options.fraction * static_cast<double>(tokens));
  const int64_t tail = std::min(tokens, std::max(kOneTarget, share));
  const int64_t head = tokens - tail;
  // The nearest end of a line that makes neither part less than half of what it should be.
  const int64_t reach = std::min({tail / 2, tail - kOneTarget, head / 2, kReachMax});
  if (!options.ends_line || reach < 1) {
    return head;
  }
  std::vector<int32_t> ids(static_cast<size_t>(2 * reach + 1));
  shard.read(ids, begin + head - reach - 1);  // ids[reach] is the last of the head
  for (int64_t distance = 0; distance <= reach; ++distance) {
    for (const int64_t moved : {-distance, distance}) {
      if (options.ends_line(ids[static_cast<size_t>(reach + moved)])) {
        return head + moved;
      }
    }
  }
  return head;
}

bool has_enough(std::span<const TokenShard> shards, const HashRange& range,
                const SplitOptions& options) {
  int64_t all = 0;
  int64_t training = 0;
  for (const TokenShard& shard : shards) {
    shard.visit_documents([&](size_t, const DocumentEntry& entry, int64_t tokens) {
      all += tokens;
      training += range.holds(entry.hash) ? tokens : 0;
    });
  }
  return training >= options.training_tokens_min || all < options.training_tokens_min;
}

}  // namespace

Split split_documents(std::span<const std::span<const TokenShard>> sources,
                      const SplitOptions& options) {
  CADRE_CHECK(options.fraction > 0.0 && options.fraction < 1.0, options.fraction);
  const Hashes hashes = hashes_of(sources);
  const uint64_t last = last_validating_hash(hashes, options.fraction);
  Split split = {.training = {.range = {.first = last + 1}},
                 .validation = {.range = {.last = last}, .tails = true}};
  std::vector<DocumentCut>& cuts = split.training.cuts;
  for (size_t source = 0; source < sources.size(); ++source) {
    if (hashes.differ() && has_enough(sources[source], split.training.range, options)) {
      continue;
    }
    split.cut_sources.push_back(source);
    for (const TokenShard& shard : sources[source]) {
      int64_t begin = 0;
      shard.visit_documents([&](size_t, const DocumentEntry& entry, int64_t tokens) {
        cuts.push_back({.hash = entry.hash, .head = head_of(shard, begin, tokens, options)});
        begin += tokens;
      });
    }
  }
  std::ranges::sort(cuts, {}, &DocumentCut::hash);
  // The same content was cut at the same place.
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  split.validation.cuts = cuts;
  return split;
}

}  // namespace cadre::data
