// Bench: the speed of steady training steps on random tokens, for fixed shapes that are measured
// elsewhere too (bench/README.md).

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "spec/model.h"
#include "telemetry/trace.h"
#include "train/engine.h"

namespace cadre::train {

struct BenchShape {
  ModelSpec model;
  int64_t micro_batch_size = 0;
  int64_t sequence_length = 0;
};

// "S", "M", "L" (Llama) or "G" (GPT-2 124M); nullopt: no such shape.
std::optional<BenchShape> bench_shape(std::string_view name);

struct BenchOptions {
  int threads = 1;
  int64_t steps_min = 5;
  double seconds_min = 3.0;  // timed steps go on until both are reached
  bool trace = false;        // times the ops of one step more
};

struct BenchResult {
  double seconds_per_step = 0.0;  // median
  double tokens_per_second = 0.0;
  double flops_per_second = 0.0;       // of the model: recomputation does not count
  double peak_flops_per_second = 0.0;  // fp32 FMA, the better of before and after
  Ledger ledger;
  int64_t resident_bytes = 0;
  int64_t page_faults = 0;              // in the timed steps
  double first_step_end_seconds = 0.0;  // on the steady clock
  std::vector<TimedOp> ops;             // of one step, if it was traced
};

BenchResult bench_training(const EngineSpec& spec, const BenchOptions& options);

}  // namespace cadre::train
