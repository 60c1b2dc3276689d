// A tokenizer that is trained on a run's own text, once: later starts find it in the cache.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/log.h"
#include "base/result.h"
#include "data/cache_undo.h"
#include "data/stop.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/data.h"

namespace cadre::data {

struct TrainedTokenizerOptions {
  int64_t vocab_size = 0;
  std::filesystem::path cache_directory = {};
  int threads = 1;            // does not change the result
  Log* log = nullptr;         // nullptr: silence
  CacheUndo* undo = nullptr;  // hears what is built; nullptr: it stays
  StopAsked stop = {};        // ends the training
};

// The cache has a folder tokenizer-KEY with tokenizer.json and tokenizer_config.json; the key is a
// checksum over the vocabulary's size and the state of every file (as for shards, see prepare.h).
// It appears by one rename. One that cannot be read is said, and trained again.
Result<std::unique_ptr<Tokenizer>> trained_tokenizer(std::span<const SourceSpec> sources,
                                                     const TrainedTokenizerOptions& options);

}  // namespace cadre::data
