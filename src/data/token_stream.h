// TokenStream: the tokens of some of the documents of a source, one after the other.
//
// Which documents: those whose content hash lies in a range. That is the split between training and
// validation: equal documents have equal hashes, so they are on the same side wherever they stand.
// A document may also be cut between the two (see split.h); then each side has a part of it.

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

// The document with this hash gives its first `head` tokens to one side, the others to the other.
struct DocumentCut {
  uint64_t hash = 0;
  int64_t head = 0;

  bool operator==(const DocumentCut&) const = default;
};

struct Selection {
  HashRange range = {};
  std::vector<DocumentCut> cuts = {};  // sorted by hash; for these the range does not count
  bool tails = false;                  // of the cut documents: what is behind the head, or the head
};

class TokenStream {
 public:
  // `shards` outlive the stream.
  TokenStream(std::span<const TokenShard> shards, Selection selection);

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  int64_t text_bytes() const { return text_bytes_; }  // without documents that are cut
  bool has_cuts() const { return has_cuts_; }
  int64_t document_length() const { return document_length_; }  // of each; 0: they differ
  int64_t shard_bytes() const;  // of all its shards, with the documents that are not its own

  // Writes tokens [first, first + out.size()), and for each the index in `out` of the first one of
  // its document (0 if that began before). Allocates nothing. May be used from several threads.
  void read(std::span<int32_t> out, std::span<int32_t> starts, int64_t first) const;

  // The document that holds token `token`: its shard and its number there.
  struct Place {
    int64_t shard = 0;
    int64_t document = 0;
    int64_t begin = 0;  // of the document (of its part on this side), in tokens of the stream
  };
  Place find(int64_t token) const;

  // See TokenShard::release_pages().
  void release_pages() const;

  const TokenShard& shard(int64_t number) const { return shards_[static_cast<size_t>(number)]; }

 private:
  // What this side has of a document: tokens [begin, end) of the shard.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;

    int64_t tokens() const { return end - begin; }
  };
  // `whole` is the document.
  Part part_of(uint64_t hash, const Part& whole) const;
  Part part_at(const Place& place) const;

  // To the next document of this side; the place is that of one.
  Place following(const Place& place) const;

  std::span<const TokenShard> shards_;
  Selection selection_;
  std::vector<Place> marks_;  // every kDocumentsPerMark-th document, so that memory stays small
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
  int64_t text_bytes_ = 0;
  int64_t document_length_ = 0;
  bool has_cuts_ = false;
};

}  // namespace cadre::data
