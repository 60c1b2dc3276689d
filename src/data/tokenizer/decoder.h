// Decoder: what each token adds to the text.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {

// One byte for each character that byte-level vocabularies spell bytes with (GPT-2's
// bytes_to_unicode): printable Latin-1 stands for itself, the 68 other bytes are U+0100 and up.
// False, with `bytes` unchanged, if `spelled` has another character.
bool bytes_of_spelling(std::string_view spelled, std::string& bytes);
std::string spelling_of_bytes(std::string_view bytes);

// The text of a sequence is the bytes of its tokens, one after another, where bytes that are not
// UTF-8 become U+FFFD.
struct Decoder {
  struct Piece {
    std::string bytes = {};
    bool whole = false;  // an incomplete character before it stays incomplete
  };
  std::vector<Piece> pieces = {};  // by id
  std::string separator = {};      // between tokens
  std::string stripped = {};       // one character, of which ...
  int64_t strip_at_start = 0;      // ... so many at most vanish from the front of the text

  // ByteLevel, Metaspace, ByteFallback, Fuse, Strip, Replace (of a string) and Sequence of these;
  // null joins tokens with spaces. Any other type, or order that has no such form, is refused.
  static Result<Decoder> parse(const TokenizerFile& file, int64_t vocab_size);
};

}  // namespace cadre::data
