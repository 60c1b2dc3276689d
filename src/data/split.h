// Split: which documents train and which validate.
//
// A document validates if its content hash is below fraction * 2^64: a function of its content and
// the fraction alone. So equal documents are on the same side in whatever source or file they
// stand, and a document that is added moves no other. Where that would leave a side without a
// document (a small corpus), the document with the smallest (largest) hash goes there, and those
// equal to it.
//
// Too few documents: where there are no two that differ, or where a source would be left with
// fewer than `training_tokens_min` tokens to train on although it has them, the documents of that
// source are cut instead, each once: its first tokens train, its last ones (the fraction of them,
// and so many more or less that the cut is at the end of a line) validate. Documents equal to these
// are cut at the same place wherever they stand, so no part of a document is on both sides.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/token_stream.h"

namespace cadre::data {

struct Split {
  Selection training = {};
  Selection validation = {};
  std::vector<size_t> cut_sources = {};  // numbers of the sources whose documents are cut
};

struct SplitOptions {
  double fraction = 0.0;            // above 0 and below 1
  int64_t training_tokens_min = 0;  // of each source that has them
  // Whether a token ends a line; empty: documents are cut anywhere.
  std::function<bool(int32_t id)> ends_line = {};
};

Split split_documents(std::span<const std::span<const TokenShard>> sources,
                      const SplitOptions& options);

}  // namespace cadre::data
