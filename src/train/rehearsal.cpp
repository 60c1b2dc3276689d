#include "train/rehearsal.h"

#include <algorithm>

namespace cadre::train {
namespace {

void ignore(int64_t, const HostBatch&) {}

// The convention of published MFU figures: products forward and twice that backward, attention once
// for its two products over the pairs that causality leaves, three times in all. What is recomputed
// does not count. (docs/architecture.md says why.)
double model_flops(const Segment& forward_and_backward) {
  double sum = 0.0;
  for (const BookedOp& op : forward_and_backward.ops) {
    if (op.name == "matmul" || op.name == "matmul_add") {
      sum += static_cast<double>(op.flops);
    } else if (op.name == "attention_forward") {
      sum += 3.0 * static_cast<double>(op.flops);
    }
  }
  return sum;
}

double flops_per_token(EngineSpec spec, const RehearsalOptions& options) {
  spec.training.recompute = Recompute::kNone;
  Engine engine(spec, {.kind = DeviceKind::kMeta, .target = options.target}, options.threads, {});
  engine.context().trace.discard();
  engine.accumulate({}, ignore, 1);
  return model_flops(engine.context().trace.current()) /
         static_cast<double>(spec.training.micro_batch_size * spec.sequence_length);
}

}  // namespace

Rehearsal rehearse(const EngineSpec& spec, const RehearsalOptions& options) {
  Rehearsal rehearsal;
  StepResult result;
  Engine engine(spec, {.kind = DeviceKind::kMeta, .target = options.target}, options.threads, {});
  Trace& trace = engine.context().trace;
  if (spec.purpose != Purpose::kInference) {
    trace.discard();
    engine.accumulate({}, ignore, 1);
    rehearsal.micro_batch = trace.cut();
    rehearsal.flops_per_token = flops_per_token(spec, options);
  }
  if (spec.purpose == Purpose::kTraining) {
    engine.update({}, result);
  }
  EvaluationSums sums;
  engine.evaluate(sums, [](const HostBatch&) {});
  if (options.text.prompt > 0) {
    rehearse_generation(engine, options.text);
  }
  if (options.whole_logits) {
    static_cast<void>(
        engine.stage().logits(engine.context(), engine.activations(), engine.filled_batch()));
  }
  rehearsal.ledger = engine.peaks();
  rehearsal.parameters = engine.store().elements();
  return rehearsal;
}

}  // namespace cadre::train
