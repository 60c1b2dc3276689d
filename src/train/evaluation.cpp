#include "train/evaluation.h"

#include <algorithm>

namespace cadre::train {

std::optional<EvaluationSums> evaluate_stream(Engine& engine, data::SampleStream& stream,
                                              const EvaluationOptions& options) {
  const int64_t batch = engine.spec().training.micro_batch_size;
  int64_t batches = (stream.samples_per_epoch() + batch - 1) / batch;
  if (options.batches_max > 0) {
    batches = std::min(batches, options.batches_max);
  }
  EvaluationSums sums;
  for (int64_t index = 0; index < batches; ++index) {
    if (options.stop != nullptr && options.stop()) {
      return std::nullopt;
    }
    engine.evaluate(
        sums, [&](const HostBatch& host) { stream.fill(index * batch, as_data_batch(host)); });
  }
  return sums;
}

}  // namespace cadre::train
