// Bpe: from a piece of text to token ids. In a piece the pair of neighbours whose merge stands
// first in the list becomes one token (the leftmost where several are equal), until no pair has a
// merge.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/token_index.h"
#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {

struct BpeOptions {
  bool bytes = false;          // merging begins with bytes; otherwise with characters
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
  bool byte_fallback =
      false;              // a character that is no token becomes the tokens <0x..> of its bytes
  bool fuse_unk = false;  // neighbouring unknown tokens become one
  int32_t unk_id = TokenIndex::kNone;  // for what has no token; kNone: it is left out
};

// Ids of pieces of up to 16 bytes, which most words are, by the piece's bytes. A later piece takes
// the place of an earlier one, so memory is bounded and a result never depends on what came before.
class PieceCache {
 public:
  static constexpr size_t kBytesMax = 16;
  static constexpr size_t kIdsMax = 10;

  struct alignas(64) Entry {
    uint64_t low = 0;  // the piece's bytes, the rest zero
    uint64_t high = 0;
    uint16_t bytes = 0;  // 0: the entry is empty
    uint16_t ids_size = 0;
    std::array<int32_t, kIdsMax> ids{};

    bool holds(const Entry& key) const {
      return low == key.low && high == key.high && bytes == key.bytes;
    }
  };

  PieceCache() : entries_(kEntriesMin) {}

  // The key of the piece [piece, piece + size); `readable` bytes may be read from `piece` on.
  static Entry key_of(const char* piece, size_t size, size_t readable);
  // Where the key's ids are, or are to be put.
  Entry& at(const Entry& key) { return entries_[hash_of(key) & (entries_.size() - 1)]; }
  // Tells that at() had to be filled: a text of many words gets a larger, empty cache.
  void count_miss();

 private:
  static constexpr size_t kEntriesMin = size_t{1} << 9;
  static constexpr size_t kEntriesMax = size_t{1} << 15;
  static size_t hash_of(const Entry& key);

  std::vector<Entry> entries_;
  size_t misses_ = 0;  // since the cache has its size
};

// What encoding needs beside the model; one thread uses it at a time.
struct BpeScratch {
  struct Symbol {
    int32_t id = 0;
    uint32_t previous = 0;
    uint32_t next = 0;
    uint32_t rank = 0;    // of the merge with the next symbol
    int32_t merged = 0;   // what that merge makes
    uint32_t offset = 0;  // in the piece
  };

  PieceCache cache;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;  // rank above place, the smallest first
  size_t section = 0;           // where the ids of this section begin: unknowns fuse within it
};

class Bpe {
 public:
  // `tokens` are the bytes of each id, as pieces have them; an id without a value is not reachable
  // from text. What they view outlives the model.
  Bpe(std::vector<std::optional<std::string_view>> tokens, const std::vector<Merge>& merges,
      const BpeOptions& options);

  // Appends the ids of `piece`, which is valid UTF-8 and shorter than 4 GiB. `readable` bytes, at
  // least those of the piece, may be read from its front on.
  void encode(std::string_view piece, size_t readable, BpeScratch& scratch,
              std::vector<int32_t>& ids) const;

  // No token has `mark` anywhere but at its front or behind another `mark`: text may be cut before
  // each run of marks without changing an id.
  bool can_cut_before(std::string_view mark) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Found {
    uint32_t rank = kNoRank;
    int32_t merged = TokenIndex::kNone;
  };
  struct Slot {
    uint64_t pair = kNoPair;
    Found found;
  };
  static constexpr uint64_t kNoPair =
      UINT64_MAX;                          // two symbols without a token have no merge either
  static constexpr size_t kShortMax = 32;  // symbols that are merged by searching, not by a queue

  static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  void insert(int32_t left, int32_t right, Found found);
  Found find(int32_t left, int32_t right) const;
  size_t place_of(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_);
  }

  int32_t symbol_at(std::string_view piece, size_t at, size_t& bytes) const;
  void encode_new(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void encode_short(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void merge_long(BpeScratch& scratch) const;
  void append(int32_t id, std::string_view bytes, BpeScratch& scratch,
              std::vector<int32_t>& ids) const;
  void append_unknown(const BpeScratch& scratch, std::vector<int32_t>& ids) const;

  std::vector<std::optional<std::string_view>> tokens_;
  BpeOptions options_;
  TokenIndex index_;
  std::vector<Slot> slots_;
  int shift_ = 0;
  std::array<int32_t, 256> byte_ids_{};      // of single bytes
  std::array<int32_t, 256> fallback_ids_{};  // of <0x00> to <0xFF>
  bool has_fallback_ = false;
};

}  // namespace cadre::data
