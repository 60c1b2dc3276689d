// PreTokenizer: the steps of tokenizer.json's pre_tokenizer, one after the other. A step either
// cuts text into pieces or rewrites a piece; the next step works on each piece.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "data/tokenizer/pieces.h"

namespace cadre::data {

struct PreTokenizerStep {
  std::unique_ptr<Splitter> splitter = nullptr;  // null: the step rewrites

  // Rewriting: every `replaced` becomes `replacement` (if not empty), then `front` is put before
  // the piece unless it begins so already.
  std::string replaced = {};
  std::string replacement = {};
  std::string front = {};
  bool front_at_start_only = false;  // only at the start of the input

  enum class Where { kAtStart, kInside, kContinued };  // continued: where another text ended
  std::string_view rewrite(std::string_view piece, Where where, std::string& storage) const;
};

struct PreTokenizer {
  std::vector<PreTokenizerStep> steps = {};
  bool byte_level = false;  // the pieces' bytes are what merging begins with

  // ByteLevel, Split, Metaspace, Digits, WhitespaceSplit and Sequence of these; null is none. Any
  // other type is refused by name.
  static Result<PreTokenizer> parse(const Json& json);
};

}  // namespace cadre::data
