#include "data/tokenizer/regex.h"

#include <algorithm>

#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

constexpr size_t kNoMatch = SIZE_MAX;

size_t memory_bit(std::string_view text, int32_t step, size_t at) {
  return static_cast<size_t>(step) * (text.size() + 1) + at;
}

}  // namespace

RegexClass::RegexClass(CodePointSet set) : ranges_(std::move(set)) {
  for (const CodePointRange& range : ranges_) {
    for (char32_t value = range.first; value <= std::min<char32_t>(range.last, 127); ++value) {
      ascii_[value >> 6] |= uint64_t{1} << (value & 63);
    }
  }
}

bool RegexClass::in_ranges(char32_t value) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), value,
      [](char32_t left, const CodePointRange& range) { return left < range.first; });
  return after != ranges_.begin() && value <= std::prev(after)->last;
}

void Regex::begin_text(std::string_view text, RegexScratch& scratch) const {
  scratch.choices_.clear();
  scratch.failed_.clear();
  scratch.failures_left_ = 4096 + 64 * static_cast<int64_t>(text.size());
}

bool Regex::find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const {
  for (size_t begin = from; begin < text.size();
       begin += utf8_size(static_cast<unsigned char>(text[begin]))) {
    const size_t end = match_at(text, 0, begin, scratch);
    if (end != kNoMatch) {
      match = {.begin = begin, .end = end};
      return true;
    }
  }
  return false;
}

// Back to the last choice that has a second way; a choice without one has failed for good. False if
// no choice above `base` is left.
bool Regex::go_back(std::string_view text, RegexScratch& scratch, size_t base, int32_t& step,
                    size_t& at) const {
  std::vector<RegexScratch::Choice>& choices = scratch.choices_;
  while (choices.size() > base) {
    RegexScratch::Choice& choice = choices.back();
    if (!choice.second) {
      choice.second = true;
      step = program_.steps[static_cast<size_t>(choice.step)].other;
      at = choice.at;
      return true;
    }
    // Whether a step leads to its kEnd does not depend on how it was reached: this stays true for
    // the rest of the text.
    if (scratch.failures_left_ > 0) {
      --scratch.failures_left_;
    } else {
      if (scratch.failed_.empty()) {
        scratch.failed_.resize(program_.steps.size() * (text.size() + 1) / 64 + 1);
      }
      const size_t bit = memory_bit(text, choice.step, choice.at);
      scratch.failed_[bit >> 6] |= uint64_t{1} << (bit & 63);
    }
    choices.pop_back();
  }
  return false;
}

// Runs from `step` to its kEnd: the end of the match, or kNoMatch. Calls itself for lookaheads and
// atomic groups, as deep as they are nested in the pattern.
size_t Regex::match_at(std::string_view text, int32_t step, size_t at,
                       RegexScratch& scratch) const {
  using Kind = RegexStep::Kind;
  const size_t base = scratch.choices_.size();
  for (;;) {
    const RegexStep& now = program_.steps[static_cast<size_t>(step)];
    bool matches = true;
    switch (now.kind) {
      case Kind::kClass: {
        matches = false;
        if (at < text.size()) {
          const CodePoint point = code_point_at(text, at);
          matches = program_.classes[static_cast<size_t>(now.target)].contains(point.value);
          at += point.size;
        }
        ++step;
        break;
      }
      case Kind::kSplit: {
        const size_t bit = memory_bit(text, step, at);
        matches = scratch.failed_.empty() || ((scratch.failed_[bit >> 6] >> (bit & 63)) & 1) == 0;
        if (matches) {
          scratch.choices_.push_back({.step = step, .at = at});
          step = now.target;
        }
        break;
      }
      case Kind::kJump:
        step = now.target;
        break;
      case Kind::kAhead:
      case Kind::kNotAhead: {
        const bool ahead = match_at(text, step + 1, at, scratch) != kNoMatch;
        matches = ahead == (now.kind == Kind::kAhead);
        step = now.target;
        break;
      }
      case Kind::kAtomic: {
        const size_t end = match_at(text, step + 1, at, scratch);
        matches = end != kNoMatch;
        at = end;
        step = now.target;
        break;
      }
      case Kind::kEnd:
        scratch.choices_.resize(base);
        return at;
    }
    if (!matches && !go_back(text, scratch, base, step, at)) {
      return kNoMatch;
    }
  }
}

}  // namespace cadre::data
