// The two kinds of SampleStream over prepared corpora: endless, mixed and shuffled for training;
// whole and in a fixed order for validation.
//
// A source of N tokens is cut into sequences of T positions: sequence i reads tokens [i T, i T +
// T], the last of them only as a target.
//
// Where every document of a source has T + 1 tokens (lists that somebody has already cut), each is
// one sequence with its targets, and sequence i begins at token i (T + 1).
//
// Training. The samples of a run are numbered through; sample n comes from the source that the
// mixture says, and is the next of that source's sequences in its own shuffled order. When a source
// has given each of its sequences once, it is shuffled anew and begins again: no sequence returns
// before all others of its source were seen, whatever the weights. An epoch is as many samples as
// the sources have sequences together, rounded down to whole periods of the mixture (the sum of the
// ratio of weights) if there is one: with one source each of its sequences once; with several,
// each source's exact share. The (N - 1) mod T tokens at a source's end are not used.
//
// Validation. All sequences of all sources, one after the other; the last of each source is filled
// up with padding that has no targets, so that every token but a source's first is a target.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/mixing.h"
#include "data/token_stream.h"
#include "spec/data.h"

namespace cadre::data {

struct SampledSource {
  std::string name = {};
  double weight = 1.0;
  const TokenStream* tokens = nullptr;  // outlives the stream
};

struct SamplingOptions {
  int64_t sequence_length = 0;
  Packing packing = Packing::kConcat;
  bool shuffle = true;     // training only
  uint64_t seed = 0;       // training only
  int64_t vocab_size = 0;  // ids that are not below it end the step: the shard went bad
};

// Every source has more than sequence_length tokens.
std::unique_ptr<SampleStream> make_training_stream(std::vector<SampledSource> sources,
                                                   const SamplingOptions& options);

// Together the sources have at least one target. The weights are not used.
std::unique_ptr<SampleStream> make_validation_stream(std::vector<SampledSource> sources,
                                                     const SamplingOptions& options);

}  // namespace cadre::data
