// Splitter: cuts text into pieces that no token crosses. Pieces follow each other without a gap.

#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "data/tokenizer/regex.h"

namespace cadre::data {

// A few pieces at a time, so that they stay in the first-level cache until they are encoded.
struct PieceBatch {
  static constexpr size_t kCapacity = 256;

  std::array<size_t, kCapacity> ends;     // offsets in the text
  std::array<bool, kCapacity> dropped{};  // the piece is not part of the result
  size_t size = 0;

  bool is_full() const { return size == kCapacity; }
  void add(size_t end, bool drop = false) {
    ends[size] = end;
    dropped[size] = drop;
    ++size;
  }
};

class Splitter {
 public:
  virtual ~Splitter() = default;

  // Before the first next_batch() on a text.
  virtual void begin_text(std::string_view, RegexScratch&) const {}

  // Adds to `batch`, which is empty, pieces that begin at `from`: until it is full, or up to the
  // end of the text. `text` is valid UTF-8; `from` is 0 or where the last batch ended.
  virtual void next_batch(std::string_view text, size_t from, RegexScratch& scratch,
                          PieceBatch& batch) const = 0;
};

}  // namespace cadre::data
