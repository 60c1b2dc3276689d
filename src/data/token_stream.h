// TokenStream: the tokens of some of the documents of a source, one after the other.
//
// Which documents: those whose content hash lies in a range. That is the split between training and
// validation: equal documents have equal hashes, so they are on the same side wherever they stand.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/token_shard.h"

namespace cadre::data {

// Hashes from `first` to `last`, both included.
struct HashRange {
  uint64_t first = 0;
  uint64_t last = UINT64_MAX;

  bool holds(uint64_t hash) const { return first <= hash && hash <= last; }
};

class TokenStream {
 public:
  // `shards` outlive the stream.
  TokenStream(std::span<const TokenShard> shards, const HashRange& range);

  // Tokens [first, first + count) alone. Where they cut a document, its bytes of text are shared
  // out in proportion.
  TokenStream part(int64_t first, int64_t count) const;

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  int64_t text_bytes() const { return text_bytes_; }
  int64_t document_length() const { return document_length_; }  // of each; 0: they differ
  int64_t shard_bytes() const;  // of all its shards, with the documents that are not its own

  // Writes tokens [first, first + out.size()), and for each the index in `out` of the first one of
  // its document (0 if that began before). Allocates nothing. May be used from several threads.
  void read(std::span<int32_t> out, std::span<int32_t> starts, int64_t first) const;

  // The document that holds token `token`: its shard and its number there.
  struct Place {
    int64_t shard = 0;
    int64_t document = 0;
    int64_t begin = 0;  // of the document, in tokens of the stream; negative: before a part
  };
  Place find(int64_t token) const;

  // See TokenShard::release_pages().
  void release_pages() const;

  const TokenShard& shard(int64_t number) const { return shards_[static_cast<size_t>(number)]; }

 private:
  // As find(), of all documents of the range, whatever part of them the stream is.
  Place locate(int64_t token) const;
  // To the next document of the range; the place is that of one.
  Place following(const Place& place) const;
  int64_t length_of(const Place& place) const;

  std::span<const TokenShard> shards_;
  HashRange range_;
  int64_t first_token_ = 0;   // of all that the range holds
  std::vector<Place> marks_;  // every kDocumentsPerMark-th document, so that memory stays small
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
  int64_t text_bytes_ = 0;
  int64_t document_length_ = 0;
};

}  // namespace cadre::data
