// Split: which documents train and which validate.
//
// A document validates if its content hash is below fraction * 2^64: a function of its content and
// the fraction alone. So equal documents are on the same side in whatever source or file they
// stand, and a document that is added moves no other. Where that would leave a side without a
// document (a small corpus), the document with the smallest (largest) hash goes there, and those
// equal to it.

#pragma once

#include <span>

#include "base/result.h"
#include "data/token_stream.h"

namespace cadre::data {

struct Split {
  HashRange training;
  HashRange validation;
};

// `fraction` is above 0 and below 1. Refuses fewer than two different documents.
Result<Split> split_documents(std::span<const std::span<const TokenShard>> sources,
                              double fraction);

}  // namespace cadre::data
