#include "data/token_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cadre::data {
namespace {

constexpr int64_t kDocumentsPerMark = 64;

int64_t begin_in_shard(std::span<const DocumentEntry> documents, size_t document) {
  return document == 0 ? 0 : static_cast<int64_t>(documents[document - 1].end);
}

}  // namespace

TokenStream::TokenStream(std::span<const TokenShard> shards, Selection selection)
    : shards_(shards), selection_(std::move(selection)) {
  CADRE_CHECK(std::ranges::is_sorted(selection_.cuts, {}, &DocumentCut::hash));
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    shards[shard].visit_documents([&](size_t number, const DocumentEntry& entry, int64_t length) {
      const int64_t tokens = part_of(entry.hash, {.begin = 0, .end = length}).tokens();
      if (tokens == 0) {
        return;
      }
      if (documents_ % kDocumentsPerMark == 0) {
        marks_.push_back({.shard = static_cast<int64_t>(shard),
                          .document = static_cast<int64_t>(number),
                          .begin = tokens_});
      }
      document_length_ = documents_ == 0 || document_length_ == tokens ? tokens : 0;
      ++documents_;
      tokens_ += tokens;
      if (tokens == length) {
        text_bytes_ += static_cast<int64_t>(entry.text_bytes);
      } else {
        has_cuts_ = true;
      }
    });
  }
}

TokenStream::Part TokenStream::part_of(uint64_t hash, const Part& whole) const {
  const auto cut = std::ranges::lower_bound(selection_.cuts, hash, {}, &DocumentCut::hash);
  if (cut != selection_.cuts.end() && cut->hash == hash) {
    const int64_t middle = whole.begin + cut->head;
    CADRE_CHECK(cut->head >= 0 && middle <= whole.end, cut->head, " of ", whole.tokens());
    return selection_.tails ? Part{middle, whole.end} : Part{whole.begin, middle};
  }
  return selection_.range.holds(hash) ? whole : Part{whole.begin, whole.begin};
}

TokenStream::Part TokenStream::part_at(const Place& place) const {
  const auto entries = shard(place.shard).documents();
  const auto document = static_cast<size_t>(place.document);
  return part_of(entries[document].hash, {.begin = begin_in_shard(entries, document),
                                          .end = static_cast<int64_t>(entries[document].end)});
}

int64_t TokenStream::shard_bytes() const {
  int64_t bytes = 0;
  for (const TokenShard& shard : shards_) {
    bytes += shard.bytes();
  }
  return bytes;
}

void TokenStream::release_pages() const {
  for (const TokenShard& shard : shards_) {
    shard.release_pages();
  }
}

TokenStream::Place TokenStream::following(const Place& place) const {
  Place next = {.shard = place.shard,
                .document = place.document + 1,
                .begin = place.begin + part_at(place).tokens()};
  for (;;) {
    if (next.document == static_cast<int64_t>(shard(next.shard).documents().size())) {
      next.document = 0;
      ++next.shard;
      CADRE_CHECK(next.shard < static_cast<int64_t>(shards_.size()), "no document follows");
    } else if (part_at(next).tokens() > 0) {
      return next;
    } else {
      ++next.document;
    }
  }
}

TokenStream::Place TokenStream::find(int64_t token) const {
  CADRE_CHECK(token >= 0 && token < tokens_, token, " of ", tokens_);
  const auto after = std::ranges::upper_bound(marks_, token, {}, &Place::begin);
  Place place = *(after - 1);
  while (token >= place.begin + part_at(place).tokens()) {
    place = following(place);
  }
  return place;
}

void TokenStream::read(std::span<int32_t> out, std::span<int32_t> starts, int64_t first) const {
  CADRE_CHECK_EQ(out.size(), starts.size());
  const auto count = static_cast<int64_t>(out.size());
  CADRE_CHECK(first >= 0 && first + count <= tokens_, first, " + ", count, " of ", tokens_);
  if (count == 0) {
    return;
  }
  Place place = find(first);
  for (int64_t done = 0;;) {
    const int64_t skipped = first + done - place.begin;  // of the first document only
    const Part part = part_at(place);
    const int64_t taken = std::min(part.tokens() - skipped, count - done);
    const auto next_of = [&](std::span<int32_t> all) {
      return all.subspan(static_cast<size_t>(done), static_cast<size_t>(taken));
    };
    shard(place.shard).read(next_of(out), part.begin + skipped);
    std::ranges::fill(next_of(starts), static_cast<int32_t>(done));
    done += taken;
    if (done == count) {
      return;
    }
    place = following(place);
  }
}

}  // namespace cadre::data
