// Dataset: everything a DataSpec names, tokenized, split, and ready to be sampled.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "data/cache_undo.h"
#include "data/encoder.h"
#include "data/loader.h"
#include "data/stop.h"
#include "device/thread_pool.h"
#include "spec/data.h"

namespace cadre::data {

struct DatasetOptions {
  TextEncoder encoder = {};    // may lack `encode` when every source holds tokens
  int64_t vocab_size = 0;      // of the model; every token id is below it
  ThreadPool* pool = nullptr;  // tokenizes; nullptr: the calling thread alone
  Log* log = nullptr;          // says what is built, reused or thrown away; nullptr: silence
  CacheUndo* undo = nullptr;   // hears what is built; nullptr: it stays
  StopAsked stop = {};         // ends the preparation
};

// One source on disk, for `cadre data prepare` and for a run's report.
struct SourceReport {
  std::string name;
  int64_t files = 0;
  int64_t input_bytes = 0;  // as stored, compressed or not
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t shards = 0;
  int64_t shard_bytes = 0;
  std::string checksum = {};   // of all tokens and of where documents begin
  std::string directory = {};  // of the shards
  bool reused = false;         // nothing had changed since they were built
};

// Owns the mapped shards; the streams refer to them and must not outlive it.
class Dataset {
 public:
  // Tokenizes what has changed or was never prepared (see prepare.h), maps the shards and splits
  // them.
  static Result<std::unique_ptr<Dataset>> open(const DataSpec& spec, const DatasetOptions& options);

  virtual ~Dataset() = default;

  // The training samples, mixed by weight and shuffled as a function of `seed`; nullptr if the spec
  // has only validation sources.
  virtual std::unique_ptr<SampleStream> training(uint64_t seed) const = 0;

  // Every validation token once, in a fixed order; nullptr if there is no validation.
  virtual std::unique_ptr<SampleStream> validation() const = 0;

  virtual const std::vector<SourceReport>& reports() const = 0;

  // Bytes of text behind the validation tokens, for bits per byte; 0 if it is not known: the source
  // held tokens, or a document was cut.
  virtual int64_t validation_text_bytes() const = 0;
};

}  // namespace cadre::data
