// RunSpec: everything that a configuration says, as plain data. read_run() (spec/read.h) makes one
// from YAML, print_run() (spec/print.h) writes it back, docs/configuration.md names every key.
//
// Paths are absolute once a configuration has been read: what is read is relative to the folder of
// the configuration, what is written (output, data.cache_directory) to the working directory.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "spec/data.h"
#include "spec/parallel.h"
#include "spec/training.h"

namespace cadre {

// Where the model comes from: a Hugging Face directory, or keys of config.json written inline.
struct ModelSource {
  std::string from = {};         // directory with config.json; empty: `config` is the whole model
  bool load_weights = true;      // false: only the config.json of `from`; weights are initialised
  Json config = Json::object();  // config.json's keys; with `from`, those that override its own

  bool operator==(const ModelSource&) const = default;
};

// Exactly one of `from` and `train_vocab_size` is given.
struct TokenizerSource {
  std::string from = {};         // tokenizer.json, or a directory that has one
  int64_t train_vocab_size = 0;  // a byte-level BPE of this size is trained on data.sources first

  bool operator==(const TokenizerSource&) const = default;
};

// The text that is generated when a run ends.
struct SampleSpec {
  std::string prompt = {};
  int64_t tokens = 64;       // 0: none is generated
  double temperature = 0.8;  // 0: greedy
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  uint64_t seed = 1;

  bool operator==(const SampleSpec&) const = default;
};

constexpr int kThreadsMax = 1024;           // of one process
constexpr int64_t kExtentMax = 2147483647;  // of a tensor in one dimension
constexpr int64_t kLayersMax = 100000;      // a rehearsal visits each

struct RunSpec {
  std::string name = {};    // empty only before a configuration is resolved; so is `output`
  std::string output = {};  // the run's folder
  int64_t threads = 0;      // 0: one per processor that the process may use
  ModelSource model = {};
  // Absent: the tokenizer of model.from if its directory has one; not needed where data are tokens.
  std::optional<TokenizerSource> tokenizer = std::nullopt;
  DataSpec data = {};
  TrainingSpec training = {};
  CheckpointSpec checkpoint = {};
  ParallelSpec parallel = {};
  SampleSpec sample = {};

  bool operator==(const RunSpec&) const = default;
};

}  // namespace cadre
