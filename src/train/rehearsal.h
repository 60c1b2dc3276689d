// Rehearsal: one step of the real trainer on the meta device. What it books is the plan.

#pragma once

#include <cstdint>

#include "device/target.h"
#include "telemetry/ledger.h"
#include "telemetry/trace.h"
#include "train/engine.h"
#include "train/generation.h"

namespace cadre::train {

struct Rehearsal {
  Ledger ledger;               // the most that any step, evaluation or sample needs
  int64_t parameters = 0;      // elements; a tied matrix counts once
  double flops_per_token = 0;  // of the model, forward and backward, without recomputation
  Segment micro_batch;         // the ops of one micro-batch, recomputation included
};

struct RehearsalOptions {
  Target target = Target::kCpu;
  int threads = 1;
  GenerationLength text = {};  // generated at the end
  bool whole_logits = false;   // logits of every position of a micro-batch, for probe
};

Rehearsal rehearse(const EngineSpec& spec, const RehearsalOptions& options);

}  // namespace cadre::train
