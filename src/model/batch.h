// Batch: the tokens of one micro-batch on this rank, and where they stand in the run.
//
// Legend: B sequences of S positions, T = B * S tokens, row by row.

#pragma once

#include <cstdint>

#include "base/random.h"
#include "tensor/tensor.h"

namespace cadre::model {

struct Batch {
  int64_t sequences = 0;        // B
  int64_t sequence_length = 0;  // S
  ConstTensor token_T = {};     // i32
  ConstTensor position_T = {};  // i32; restarts where a document does, if documents are kept apart
  ConstTensor target_T = {};    // i32; kernels::kIgnoredTarget where there is none
  ConstTensor start_BS = {};    // i32, first position of the document, or empty: one document each

  // Which random numbers dropout sees; `training` false: none is dropped.
  bool training = true;
  uint64_t seed = 0;
  int64_t step = 0;       // of the optimizer
  int64_t first_row = 0;  // row 0 of this micro-batch in the global batch: its first slot times S

  int64_t tokens() const { return sequences * sequence_length; }
};

// Where in the model something is dropped: outputs of the embedding, of attention and of the MLP,
// and attention's probabilities.
enum class DropoutSite : uint64_t { kEmbedding, kAttention, kMlp, kProbabilities };

// Another stream for every step, layer and site; the rows and channels (of probabilities: rows,
// heads and keys) are the index in the stream.
inline RandomKey dropout_key(const Batch& batch, int64_t layer, DropoutSite site) {
  uint64_t stream = stream_of("dropout");
  for (const uint64_t part : {static_cast<uint64_t>(batch.step), static_cast<uint64_t>(layer),
                              static_cast<uint64_t>(site)}) {
    const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
    const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
    const PhiloxWords mixed = philox({low(part), high(part), 0, 0}, {low(stream), high(stream)});
    stream = (uint64_t{mixed[1]} << 32) | mixed[0];
  }
  return {.seed = batch.seed, .stream = stream};
}

}  // namespace cadre::model
