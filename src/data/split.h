// Split: which documents train and which validate.
//
// A document validates if its content hash is below fraction * 2^64: a function of its content and
// the fraction alone. So equal documents are on the same side in whatever source or file they
// stand, and a document that is added moves no other. Where that would leave a side without a
// document (a small corpus), the document with the smallest (largest) hash goes there, and those
// equal to it.
//
// A corpus that is one document (a single text file) is cut itself: its last tokens validate, as
// many as the fraction says and two at the least, and its first ones train.

#pragma once

#include <span>

#include "base/result.h"
#include "data/token_stream.h"

namespace cadre::data {

struct Split {
  HashRange training = {};
  HashRange validation = {};
  // 0, or where the one document there is is cut; both ranges hold it then.
  int64_t training_tokens = 0;
};

// `fraction` is above 0 and below 1. Refuses several documents that are all equal, and one that is
// too short to be cut.
Result<Split> split_documents(std::span<const std::span<const TokenShard>> sources,
                              double fraction);

}  // namespace cadre::data
