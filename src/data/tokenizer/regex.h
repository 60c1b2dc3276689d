// Regex: the regular expressions that tokenizer.json files use, over Unicode code points.
//
// Syntax (Oniguruma's, as Hugging Face uses it): literals, ., classes with ranges, [^..], && and
// nesting, \s \S \d \D \w \W \r \n \t \f \v \xHH \x{..} \uHHHH, \p{..} \P{..} \p{^..}, alternation,
// groups (..) (?:..) (?i:..) (?>..), lookahead (?=..) (?!..), quantifiers * + ? {n} {n,} {n,m}
// {,m}, each also lazy (?) and, except for braces, possessive (+). Anything else is refused by
// name, and so is a pattern that can match nothing. Ignoring case concerns ASCII letters only, as
// in
// @huggingface/tokenizers.
//
// Matching backtracks and takes the first alternative that matches, as Perl does. Once it has
// failed too often it remembers where, and never tries the same step at the same place of the text
// twice: a hostile pattern costs (steps of the program) x (size of the text), in time and in bits.

#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "data/tokenizer/unicode.h"

namespace cadre::data {

// One step of the compiled program; unless it says otherwise, the next one follows.
struct RegexStep {
  enum class Kind : uint8_t {
    kClass,     // takes one code point of classes[target]
    kSplit,     // goes on at `target`, and at `other` if that fails
    kJump,      // goes on at `target`
    kAhead,     // what follows up to its kEnd must match here; then goes on at `target`
    kNotAhead,  // ... must not match here
    kAtomic,    // ... is taken, in the first way that matches only
    kEnd,       // of a lookahead, of an atomic group, or of the whole
  };
  Kind kind = Kind::kEnd;
  int32_t target = 0;
  int32_t other = 0;
};

// A set of code points that is asked often: a bitmap for ASCII, ranges for the rest.
class RegexClass {
 public:
  explicit RegexClass(CodePointSet set);

  bool contains(char32_t value) const {
    return value < 128 ? ((ascii_[value >> 6] >> (value & 63)) & 1) != 0 : in_ranges(value);
  }

 private:
  bool in_ranges(char32_t value) const;

  uint64_t ascii_[2] = {0, 0};
  CodePointSet ranges_;
};

struct RegexProgram {
  std::vector<RegexStep> steps;
  std::vector<RegexClass> classes;
};

// What one search over one text needs; may be used for one text after another.
class RegexScratch {
 private:
  friend class Regex;
  struct Choice {
    int32_t step = 0;
    bool second = false;  // the second way is being tried
    size_t at = 0;
  };
  std::vector<Choice> choices_;
  int64_t failures_left_ = 0;     // before they are remembered
  std::vector<uint64_t> failed_;  // one bit for each (step, place), once they are
};

class Regex {
 public:
  static Result<Regex> parse(std::string_view pattern);

  // Matches exactly `text`, which is not empty.
  static Regex literal(std::string_view text);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Before the first find() in a text.
  void begin_text(std::string_view text, RegexScratch& scratch) const;

  // The first match that begins at `from` or later; false if there is none. `text` is valid UTF-8.
  bool find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const;

 private:
  explicit Regex(RegexProgram program) : program_(std::move(program)) {}

  size_t match_at(std::string_view text, int32_t step, size_t at, RegexScratch& scratch) const;
  bool go_back(std::string_view text, RegexScratch& scratch, size_t base, int32_t& step,
               size_t& at) const;

  RegexProgram program_;
};

}  // namespace cadre::data
