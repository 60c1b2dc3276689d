// Generation: text from a model, token by token, with a cache of keys and values.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "train/engine.h"

namespace cadre::train {

struct GenerationOptions {
  int64_t tokens = 64;       // at most so many new ones
  double temperature = 0.0;  // 0: always the most likely token
  int64_t top_k = 0;         // only the k most likely; 0: all
  double top_p = 1.0;        // only the most likely that together reach this probability
  uint64_t seed = 0;
  std::vector<int64_t> stop = {};  // ids that end the text
};

// Continues `prompt` (at least one id). Prompt and new tokens together need at most
// engine.positions(). Calls `emit` with every new token; one that stops is not emitted.
void generate(Engine& engine, std::span<const int32_t> prompt, const GenerationOptions& options,
              const std::function<void(int32_t)>& emit);

// How long a text will be.
struct GenerationLength {
  int64_t prompt = 0;  // tokens; 0: no text
  int64_t tokens = 0;  // new ones, at most

  int64_t positions() const { return prompt + tokens; }
};

// On meta: takes and gives back the memory that generate() would, token by token, since a kernel
// may need more scratch for fewer rows.
void rehearse_generation(Engine& engine, const GenerationLength& length);

// The next token of `logits`. `index` numbers the draws of one text, so that the choice is a pure
// function of (logits, options, index).
int32_t choose_token(std::span<const float> logits, const GenerationOptions& options,
                     int64_t index);

}  // namespace cadre::train
