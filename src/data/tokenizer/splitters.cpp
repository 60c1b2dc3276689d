#include "data/tokenizer/splitters.h"

#include <utility>

namespace cadre::data {
namespace {

class PatternSplitter final : public Splitter {
 public:
  PatternSplitter(Pattern pattern, SplitBehavior behavior)
      : pattern_(std::move(pattern)), behavior_(behavior) {}

  void begin_text(std::string_view text, RegexScratch& scratch) const override {
    pattern_.begin_text(text, scratch);
  }

  // Where the next piece ends depends only on where it begins, so a batch may end anywhere.
  void next_batch(std::string_view text, size_t from, RegexScratch& scratch,
                  PieceBatch& batch) const override {
    Regex::Match match;
    while (from < text.size() && !batch.is_full()) {
      if (!pattern_.find(text, from, scratch, match)) {
        batch.add(text.size(), behavior_ == SplitBehavior::kKept);
        return;
      }
      const bool takes_gap = behavior_ == SplitBehavior::kMergedWithPrevious;
      if (match.begin > from && !takes_gap) {
        batch.add(match.begin, behavior_ == SplitBehavior::kKept);
        from = match.begin;
        if (batch.is_full()) {
          return;
        }
      }
      from = end_of(text, match, scratch);
      batch.add(from, behavior_ == SplitBehavior::kRemoved);
    }
  }

 private:
  // The end of the piece that begins with `match`.
  size_t end_of(std::string_view text, const Regex::Match& match, RegexScratch& scratch) const {
    size_t end = match.end;
    Regex::Match next;
    if (behavior_ == SplitBehavior::kMergedWithNext) {
      return pattern_.find(text, end, scratch, next) ? next.begin : text.size();
    }
    if (behavior_ == SplitBehavior::kContiguous) {
      while (pattern_.find(text, end, scratch, next) && next.begin == end) {
        end = next.end;
      }
    }
    return end;
  }

  Pattern pattern_;
  SplitBehavior behavior_;
};

class MarkSplitter final : public Splitter {
 public:
  explicit MarkSplitter(std::string mark) : mark_(std::move(mark)) {}

  void next_batch(std::string_view text, size_t from, RegexScratch&,
                  PieceBatch& batch) const override {
    while (from < text.size() && !batch.is_full()) {
      size_t at = from;
      while (text.substr(at).starts_with(mark_)) {
        at += mark_.size();
      }
      const size_t next = text.find(mark_, at);
      from = next == std::string_view::npos ? text.size() : next;
      batch.add(from);
    }
  }

 private:
  std::string mark_;
};

}  // namespace

std::unique_ptr<Splitter> make_pattern_splitter(Pattern pattern, SplitBehavior behavior) {
  return std::make_unique<PatternSplitter>(std::move(pattern), behavior);
}

std::unique_ptr<Splitter> make_mark_splitter(std::string mark) {
  return std::make_unique<MarkSplitter>(std::move(mark));
}

}  // namespace cadre::data
