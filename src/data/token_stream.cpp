#include "data/token_stream.h"

#include <algorithm>

#include "base/check.h"

namespace cadre::data {
namespace {

constexpr int64_t kDocumentsPerMark = 64;

int64_t begin_in_shard(std::span<const DocumentEntry> documents, size_t document) {
  return document == 0 ? 0 : static_cast<int64_t>(documents[document - 1].end);
}

}  // namespace

TokenStream::TokenStream(std::span<const TokenShard> shards, const HashRange& range)
    : shards_(shards), range_(range) {
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    shards[shard].visit_documents([&](size_t number, const DocumentEntry& entry, int64_t tokens) {
      if (!range.holds(entry.hash)) {
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
      text_bytes_ += static_cast<int64_t>(entry.text_bytes);
    });
  }
}

TokenStream TokenStream::part(int64_t first, int64_t count) const {
  CADRE_CHECK(0 <= first && 0 < count && first + count <= tokens_, first, " + ", count, " of ",
              tokens_);
  TokenStream result = *this;
  result.first_token_ += first;
  result.tokens_ = count;
  result.text_bytes_ = static_cast<int64_t>(
      static_cast<double>(text_bytes_) * static_cast<double>(count) / static_cast<double>(tokens_));
  result.document_length_ = count == tokens_ ? document_length_ : 0;
  return result;
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

int64_t TokenStream::length_of(const Place& place) const {
  const auto entries = shard(place.shard).documents();
  const auto document = static_cast<size_t>(place.document);
  return static_cast<int64_t>(entries[document].end) - begin_in_shard(entries, document);
}

TokenStream::Place TokenStream::following(const Place& place) const {
  Place next = {.shard = place.shard,
                .document = place.document + 1,
                .begin = place.begin + length_of(place)};
  for (;;) {
    const auto entries = shard(next.shard).documents();
    if (next.document == static_cast<int64_t>(entries.size())) {
      next.document = 0;
      ++next.shard;
      CADRE_CHECK(next.shard < static_cast<int64_t>(shards_.size()), "no document follows");
    } else if (range_.holds(entries[static_cast<size_t>(next.document)].hash)) {
      return next;
    } else {
      ++next.document;
    }
  }
}

TokenStream::Place TokenStream::find(int64_t token) const {
  CADRE_CHECK(token >= 0 && token < tokens_, token, " of ", tokens_);
  Place place = locate(first_token_ + token);
  place.begin -= first_token_;
  return place;
}

TokenStream::Place TokenStream::locate(int64_t token) const {
  const auto after = std::ranges::upper_bound(marks_, token, {}, &Place::begin);
  Place place = *(after - 1);
  while (token >= place.begin + length_of(place)) {
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
  Place place = locate(first_token_ + first);
  for (int64_t done = 0;;) {
    const int64_t skipped = first_token_ + first + done - place.begin;  // of the first one only
    const int64_t taken = std::min(length_of(place) - skipped, count - done);
    const TokenShard& from = shard(place.shard);
    const auto part = [&](std::span<int32_t> all) {
      return all.subspan(static_cast<size_t>(done), static_cast<size_t>(taken));
    };
    from.read(part(out),
              begin_in_shard(from.documents(), static_cast<size_t>(place.document)) + skipped);
    std::ranges::fill(part(starts), static_cast<int32_t>(done));
    done += taken;
    if (done == count) {
      return;
    }
    place = following(place);
  }
}

}  // namespace cadre::data
