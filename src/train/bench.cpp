#include "train/bench.h"

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "kernels/peak.h"
#include "telemetry/resident.h"
#include "train/rehearsal.h"

namespace cadre::train {
namespace {

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

ModelSpec llama(int64_t hidden, int64_t layers, int64_t heads, int64_t ffn, int64_t vocab) {
  return {.family = "llama",
          .vocab_size = vocab,
          .hidden_size = hidden,
          .intermediate_size = ffn,
          .num_hidden_layers = layers,
          .num_attention_heads = heads,
          .num_key_value_heads = heads,
          .head_dim = hidden / heads,
          .max_position_embeddings = 2048};
}

ModelSpec gpt2_124m() {
  return {.family = "gpt2",
          .vocab_size = 50304,
          .hidden_size = 768,
          .intermediate_size = 3072,
          .num_hidden_layers = 12,
          .num_attention_heads = 12,
          .num_key_value_heads = 12,
          .head_dim = 64,
          .max_position_embeddings = 1024,
          .norm = NormKind::kLayer,
          .mlp = MlpKind::kGeluTanh,
          .positions = PositionKind::kLearned,
          .qkv_bias = true,
          .attention_output_bias = true,
          .mlp_bias = true,
          .tie_word_embeddings = true};
}

// Another batch at every step, from the numbers of a counter.
FillBatch random_tokens(const EngineSpec& spec, int64_t step) {
  return [&spec, step](int64_t micro_batch, const HostBatch& batch) {
    const RandomKey key{.seed = static_cast<uint64_t>(step),
                        .stream = static_cast<uint64_t>(micro_batch)};
    const auto vocabulary = static_cast<uint64_t>(spec.model.vocab_size);
    const auto token = [&](size_t index) {
      return static_cast<int32_t>((random_word_at(key, static_cast<int64_t>(index)) * vocabulary) >>
                                  32);
    };
    for (size_t i = 0; i < batch.tokens.size(); ++i) {
      batch.tokens[i] = token(i);
      batch.targets[i] = token(i + 1);
      batch.positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % spec.sequence_length);
      batch.starts[i] = 0;
    }
  };
}

}  // namespace

std::optional<BenchShape> bench_shape(std::string_view name) {
  if (name == "S") {
    return BenchShape{llama(128, 4, 4, 352, 256), 16, 256};
  }
  if (name == "M") {
    return BenchShape{llama(288, 6, 6, 768, 32000), 8, 256};
  }
  if (name == "L") {
    return BenchShape{llama(768, 12, 12, 2048, 32000), 4, 1024};
  }
  if (name == "G") {
    return BenchShape{gpt2_124m(), 4, 64};
  }
  return std::nullopt;
}

BenchResult bench_training(const EngineSpec& spec, const BenchOptions& options) {
  BenchResult result;
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal = rehearse(spec, {.target = target, .threads = options.threads});
  Engine engine(spec, {.kind = DeviceKind::kCpu, .target = target}, options.threads,
                rehearsal.ledger);
  engine.store().initialize(engine.context(), 1);
  int64_t step = 0;
  const auto run_step = [&] {
    engine.step({.step = step, .learning_rate = 3e-4}, random_tokens(spec, step));
    ++step;
  };
  run_step();
  result.first_step_end_seconds = now_seconds();
  run_step();

  const double peak_before = kernels::measure_peak_flops(engine.context());
  const int64_t faults_before = page_faults();
  std::vector<double> seconds;
  double total = 0.0;
  while (static_cast<int64_t>(seconds.size()) < options.steps_min || total < options.seconds_min) {
    const double start = now_seconds();
    run_step();
    seconds.push_back(now_seconds() - start);
    total += seconds.back();
  }
  result.page_faults = page_faults() - faults_before;
  result.peak_flops_per_second =
      std::max(peak_before, kernels::measure_peak_flops(engine.context()));
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<int64_t>(seconds.size() / 2));
  result.seconds_per_step = seconds[seconds.size() / 2];
  const auto tokens = static_cast<double>(spec.training.micro_batch_size * spec.sequence_length *
                                          spec.training.gradient_accumulation_steps);
  result.tokens_per_second = tokens / result.seconds_per_step;
  result.flops_per_second = rehearsal.flops_per_token * result.tokens_per_second;
  result.ledger = engine.peaks();
  result.resident_bytes = resident_bytes();
  if (options.trace) {
    engine.context().trace.time_ops(true);
    run_step();
    result.ops = engine.context().trace.take_timed_ops();
  }
  return result;
}

}  // namespace cadre::train
