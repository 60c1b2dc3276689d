// Probe: loss, logits and gradients of a model on given tokens, for who checks a conversion.

#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "train/engine.h"

namespace cadre::train {

struct ProbeTokens {
  int64_t sequences = 0;
  int64_t length = 0;                // of the inputs: one less than what was given
  std::vector<int32_t> inputs = {};  // [sequences, length]
  std::vector<int32_t> targets = {};
};

// {"tokens": [[...], ...]}: sequences of equal length T + 1; inputs are all but the last, targets
// all but the first. "targets" may give them apart, [[...], ...] of T each, -100 for none.
Result<ProbeTokens> read_probe_tokens(const Json& json, std::string_view source,
                                      int64_t vocab_size);

struct ProbeOptions {
  std::vector<int64_t> positions =
      {};  // of sequence 0 whose logits are shown; negative: from the end
  bool gradients = false;
};

// The engine is for gradients if they are asked for; for inference it is enough otherwise.
// {"loss", "target_tokens", "logits": [{"sequence", "position", "values"}],
//  "gradients": {NAME: {"norm", "first"}}}
Json probe(Engine& engine, const ProbeTokens& tokens, const ProbeOptions& options);

}  // namespace cadre::train
