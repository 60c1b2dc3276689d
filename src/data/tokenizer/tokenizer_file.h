// TokenizerFile: what a tokenizer.json says, as data: read, written, or made by the trainer.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cadre::data {

struct AddedToken {
  int32_t id = 0;
  std::string content = {};
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // looked for in the normalized text, not in the text as it is
  bool special = false;

  bool operator==(const AddedToken&) const = default;
};

// The ids of the two tokens that become one.
struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  bool operator==(const Merge&) const = default;
};

struct TokenizerFile {
  // The model: BPE.
  std::vector<std::optional<std::string>> vocab = {};  // by id, as tokenizer.json spells it
  std::vector<Merge> merges = {};                      // the first has the highest priority
  std::optional<std::string> unk_token = std::nullopt;
  bool byte_fallback = false;
  bool fuse_unk = false;
  bool ignore_merges = false;

  std::vector<AddedToken> added_tokens = {};

  // As tokenizer.json has them; null for none.
  Json normalizer = nullptr;
  Json pre_tokenizer = nullptr;
  Json post_processor = nullptr;
  Json decoder = nullptr;

  Json config = nullptr;  // tokenizer_config.json
};

// Refuses, with `source` in the message, what is not JSON, nested too deep, has a key twice, is of
// a wrong type, repeats an id, has ids far beyond the number of tokens, or merges tokens that do
// not exist; and any model that is not BPE. Parts other than the model are not looked into.
Result<TokenizerFile> read_tokenizer_json(std::string_view text, std::string_view source);

std::string write_tokenizer_json(const TokenizerFile& file);

}  // namespace cadre::data
