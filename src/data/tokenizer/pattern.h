// Pattern: {"String": ...} or {"Regex": ...} of tokenizer.json, searched for and replaced.

#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "data/tokenizer/json_members.h"
#include "data/tokenizer/regex.h"

namespace cadre::data {

class Pattern {
 public:
  // From the member "pattern" of an object.
  static Result<Pattern> parse(JsonMembers& members);

  // The pattern {"String": text}; `text` is not empty.
  static Pattern of_text(std::string_view text);

  // The pattern {"Regex": regex}.
  static Result<Pattern> of_regex(std::string_view regex);

  // As Regex; `scratch` is not used for a string.
  void begin_text(std::string_view text, RegexScratch& scratch) const;
  bool find(std::string_view text, size_t from, RegexScratch& scratch, Regex::Match& match) const;

  // `text` if nothing is found in it, otherwise `storage`.
  std::string_view replace_all(std::string_view text, std::string_view content,
                               std::string& storage) const;

  // The pattern if it is a regular expression, as it is spelled.
  const std::string& regex_text() const { return regex_text_; }

 private:
  std::string text_;  // not empty: this very text
  std::string regex_text_;
  std::optional<Regex> regex_;
};

// Bytes of the white space at either end of `text`.
size_t leading_white(std::string_view text);
size_t trailing_white(std::string_view text);

}  // namespace cadre::data
