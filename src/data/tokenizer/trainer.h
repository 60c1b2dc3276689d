// Training of a byte-level BPE vocabulary: the most frequent pair of neighbours becomes a token,
// again and again (Sennrich et al., 2016; Radford et al., 2019, on bytes).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/stop.h"
#include "data/tokenizer/tokenizer.h"

namespace cadre::data {

enum class PreTokenization { kGpt2, kLlama3 };  // how text is cut into words that no token crosses

struct TrainerOptions {
  int64_t vocab_size = 32000;  // with the 256 bytes and the special tokens
  PreTokenization pre_tokenization = PreTokenization::kLlama3;
  // They get the last ids, in this order. Their text in the corpus is not learned from.
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::string eos_token = "<|endoftext|>";  // one of them, or empty
  std::string bos_token = {};               // one of them, or empty; put before every text
  int64_t min_frequency = 2;                // rarer pairs are not merged
  int threads = 1;                          // does not change the result
  StopAsked stop = {};                      // ends the training
};

// Puts the next text into `chunk` and returns true, or false after the last. No word crosses the
// end of a chunk, so chunks should end where documents or lines do. Called by one thread at a time.
using TextSource = std::function<Result<bool>(std::string& chunk)>;

// The vocabulary is smaller than asked for when the corpus has no more pairs to merge.
Result<std::unique_ptr<Tokenizer>> train_tokenizer(const TextSource& source,
                                                   const TrainerOptions& options);

}  // namespace cadre::data
