// RunSetup: what a configuration names, found and checked: the model, the tokenizer, the data. All
// that can be wrong with a run is found here, before anything is written.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "data/cache_undo.h"
#include "data/dataset.h"
#include "data/tokenizer/tokenizer.h"
#include "device/thread_pool.h"
#include "spec/read.h"
#include "train/engine.h"

namespace cadre::train {

struct RunSetup {
  RunSpec spec;
  ModelSpec model;
  std::filesystem::path weights = {};          // folder to load from; empty: initialised
  std::unique_ptr<data::Tokenizer> tokenizer;  // null where data are tokens and none is named
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::SampleStream> training;
  std::unique_ptr<data::SampleStream> validation;  // null: there is none
  int64_t total_steps = 0;
  int threads = 1;
  // Ends with the setup: call keep() once the run is certain to start.
  std::unique_ptr<data::CacheUndo> cache_undo;

  int64_t tokens_per_step() const { return samples_per_step() * spec.data.sequence_length; }
  int64_t samples_per_step() const {
    return spec.training.micro_batch_size * spec.training.gradient_accumulation_steps;
  }
};

struct SetupOptions {
  // A tokenizer.json that an earlier start of this run has trained; used if it is there.
  std::filesystem::path trained_tokenizer = {};
  Log* log = nullptr;  // outlives the call
  // Ends the preparation of the data with an error; what was complete stays in the cache.
  data::StopAsked stop = {};
};

Result<RunSetup> set_up_run(const LoadedRun& loaded, const SetupOptions& options);

// The model of a configuration without its data: for plan. A vocabulary that is yet to be trained
// has the size that was asked for.
Result<ModelSpec> resolve_model(const LoadedRun& loaded);

// What the preparation of data needs of a tokenizer, which outlives it; null: nothing is known.
data::TextEncoder encoder_of(const data::Tokenizer* tokenizer);

EngineSpec engine_spec(const RunSpec& spec, const ModelSpec& model);

// One thread per processor that this process may use, if `asked` is 0.
int thread_count(int64_t asked);

}  // namespace cadre::train
