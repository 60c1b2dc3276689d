// MergeLearner: which pairs of neighbours become tokens, in which order.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/stop.h"
#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {

struct CountedWord {
  std::string bytes = {};
  int64_t count = 0;
};

// Begins with the bytes as tokens 0 to 255. The pair with the largest count (of two equal ones the
// one with the smaller ids) becomes one token, again and again, until there are `tokens_max` tokens
// or no pair occurs `count_min` times. A new token gets the next id; a pair that spells a token
// which is there already becomes that one. Occurrences may overlap when they are counted: "aaa" has
// the pair "aa" twice. The order of the words makes no difference.
std::vector<Merge> learn_merges(const std::vector<CountedWord>& words, int64_t tokens_max,
                                int64_t count_min, const StopAsked& stop = {});

}  // namespace cadre::data
