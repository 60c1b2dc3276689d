// Splitters that are made from what tokenizer.json says.

#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/pieces.h"

namespace cadre::data {

// What becomes of the matches of a pattern ("the-final--countdown" cut at "-"):
enum class SplitBehavior {
  kRemoved,             // the | final | countdown
  kIsolated,            // the | - | final | - | - | countdown
  kMergedWithPrevious,  // the- | final- | - | countdown
  kMergedWithNext,      // the | -final | - | -countdown
  kContiguous,          // the | - | final | -- | countdown
  kKept,                // - | - | -: the matches alone
};

std::unique_ptr<Splitter> make_pattern_splitter(Pattern pattern, SplitBehavior behavior);

// Cuts before each run of `mark`.
std::unique_ptr<Splitter> make_mark_splitter(std::string mark);

}  // namespace cadre::data
