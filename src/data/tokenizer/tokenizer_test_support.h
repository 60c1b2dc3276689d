// A tokenizer.json of a few tokens for tests, to be changed in the part that matters.

#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "data/tokenizer/tokenizer.h"

namespace cadre::data {

// Byte-level, GPT-2's pattern. Ids: 0 to 4 are a b c Ġ (a space) and é's second byte; 5 ab, 6 abc,
// 7 Ġa, 8 <end> (special).
inline Json small_tokenizer() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 8, "content": "<end>", "special": true, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {
      "type": "BPE",
      "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "©": 4, "ab": 5, "abc": 6, "Ġa": 7},
      "merges": ["a b", "ab c", "Ġ a"]
    }
  })");
}

inline Result<std::unique_ptr<Tokenizer>> parse_tokenizer(const Json& json) {
  return Tokenizer::parse(json.dump(), "test.json");
}

// Why it is refused; empty if it is not.
inline std::string refusal_of(const Json& json) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = parse_tokenizer(json);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

}  // namespace cadre::data
