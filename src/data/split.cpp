#include "data/split.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace cadre::data {
namespace {

constexpr int64_t kValidationTokensMin = 2;  // one, and the target after it

}  // namespace

Result<Split> split_documents(std::span<const std::span<const TokenShard>> sources,
                              double fraction) {
  CADRE_CHECK(fraction > 0.0 && fraction < 1.0, fraction);
  uint64_t smallest = UINT64_MAX;
  uint64_t largest = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  for (const std::span<const TokenShard> shards : sources) {
    for (const TokenShard& shard : shards) {
      shard.visit_documents([&](size_t, const DocumentEntry& entry, int64_t length) {
        smallest = std::min(smallest, entry.hash);
        largest = std::max(largest, entry.hash);
        ++documents;
        tokens += length;
      });
    }
  }
  if (documents == 1) {
    const auto share = static_cast<int64_t>(std::ceil(static_cast<double>(tokens) * fraction));
    const int64_t training = tokens - std::max<int64_t>(share, kValidationTokensMin);
    if (training < 1) {
      return input_error("data: validation_fraction ", fraction, " cannot cut the one document of ",
                         tokens, " tokens; give it more text, or set data.validation_fraction: 0");
    }
    return Split{.training_tokens = training};
  }
  if (smallest >= largest) {
    return input_error("data: validation_fraction ", fraction, " cannot split ", documents,
                       " documents that are all equal; give data.validation files of its own, or "
                       "set data.validation_fraction: 0");
  }
  // Below 2^64, since the largest double below 1 is 1 - 2^-53.
  const auto limit = static_cast<uint64_t>(std::ldexp(fraction, 64));
  const uint64_t last = std::clamp(limit == 0 ? 0 : limit - 1, smallest, largest - 1);
  return Split{.training = {.first = last + 1}, .validation = {.last = last}};
}

}  // namespace cadre::data
