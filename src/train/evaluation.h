// Evaluation: the loss over a whole stream of samples.

#pragma once

#include <cstdint>
#include <optional>

#include "data/loader.h"
#include "train/engine.h"

namespace cadre::train {

struct EvaluationOptions {
  int64_t batches_max = 0;  // micro-batches; 0: the whole stream
  // Asked before every micro-batch: true ends the evaluation without a result. nullptr: never.
  bool (*stop)() = nullptr;
};

// nullopt if it was stopped. Samples [0, epoch) of `stream`, in order; rows past the end are
// padding. The order of training is not touched.
std::optional<EvaluationSums> evaluate_stream(Engine& engine, data::SampleStream& stream,
                                              const EvaluationOptions& options);

// Copies of the caller's spans for the loader.
inline data::Batch as_data_batch(const HostBatch& batch) {
  return {.tokens = batch.tokens,
          .targets = batch.targets,
          .positions = batch.positions,
          .starts = batch.starts,
          .ids = {}};
}

}  // namespace cadre::train
