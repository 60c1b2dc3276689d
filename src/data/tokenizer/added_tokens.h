// AddedTokenMatcher: finds the text of added tokens inside a text.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {

class AddedTokenMatcher {
 public:
  struct Entry {
    std::string content;      // what is looked for
    const AddedToken* token;  // outlives the matcher
  };

  // Contents are not empty and differ.
  explicit AddedTokenMatcher(std::vector<Entry> entries = {});

  struct Match {
    size_t begin = 0;  // with the white space that the token takes
    size_t end = 0;
    const AddedToken* token = nullptr;
  };

  // The first token at `from` or later, the longest of those that begin there; false if there is
  // none. A match takes no white space before `from`.
  bool find(std::string_view text, size_t from, Match& match) const;

 private:
  size_t candidate(std::string_view text, size_t from) const;
  const Entry* longest_at(std::string_view text, size_t at) const;

  std::vector<Entry> entries_;      // sorted by content
  std::array<bool, 256> begins_{};  // some content begins with the byte
  int only_begin_ = -1;             // all contents begin with this byte; -1: they do not
};

}  // namespace cadre::data
