// Token files of other programs: JSON lists of lists, and raw numbers.

#pragma once

#include "base/result.h"
#include "data/corpus.h"
#include "data/documents.h"

namespace cadre::data {

// [[1, 2], [3]] or {"tokens": [[1, 2], [3]]}; other keys of the object are not looked at.
Status read_token_lists(const CorpusFile& file, const PieceSink& sink);

// Numbers of 2 or 4 bytes, little-endian, without a header; a document ends after each `eos`.
Status read_raw_tokens(const CorpusFile& file, std::optional<int32_t> eos, const PieceSink& sink);

}  // namespace cadre::data
