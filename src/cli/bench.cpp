#include "train/bench.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/json.h"
#include "base/step_error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "spec/read.h"
#include "spec/schema.h"
#include "telemetry/trace_file.h"
#include "train/limits.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

// The least that a configuration must say; what is measured comes from the flags.
constexpr std::string_view kConfiguration =
    "model: {model_type: llama, vocab_size: 256, hidden_size: 64, intermediate_size: 64,\n"
    "        num_hidden_layers: 1, num_attention_heads: 1}\n"
    "data: {sources: [{paths: [tokens.u16]}]}\n"
    "training: {steps: 1}\n";

struct Flags {
  std::string shape = "S";
  int64_t batch = 0;
  int64_t sequence = 0;
  std::string precision = "fp32";
  std::string gradient_checkpointing = "false";
  std::vector<std::string> set;
  int64_t threads = 0;
  int64_t steps = 5;
  double seconds = 3.0;
  std::string trace;
  bool json = false;
};

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// When this process was started, on the steady clock: field 22 of /proc/self/stat, in clock ticks
// since boot, as the steady clock counts. (proc(5))
double process_start_seconds() {
  std::ifstream file("/proc/self/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    fields >> field;
  }
  return field.empty() ? steady_seconds()
                       : std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

constexpr int64_t kSizeMax = int64_t{1} << 24;

Result<Recompute> recompute_named(const std::string& name) {
  if (name == "false" || name == "none") {
    return Recompute::kNone;
  }
  if (name == "true" || name == "full") {
    return Recompute::kFull;
  }
  if (name == "selective") {
    return Recompute::kSelective;
  }
  return input_error("--gradient-checkpointing ", name,
                     ": allowed are false, true, selective and full");
}

// Keys of a configuration that change what a step costs and that no flag of bench has.
constexpr std::string_view kKeys[] = {"training.gradient_accumulation_steps",
                                      "training.optimizer",
                                      "training.weight_decay",
                                      "training.beta1",
                                      "training.beta2",
                                      "training.epsilon",
                                      "training.momentum",
                                      "training.nesterov",
                                      "training.muon_momentum",
                                      "training.muon_newton_schulz_steps",
                                      "training.muon_learning_rate_scale",
                                      "training.parameter_groups",
                                      "training.max_grad_norm",
                                      "training.z_loss",
                                      "training.dropout"};

Status check_keys(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::string_view key = std::string_view(setting).substr(0, setting.find_first_of("=["));
    const Synonym* synonym = find_synonym(key);
    const std::string_view canonical = synonym == nullptr ? key : synonym->canonical;
    if (find_key(canonical) != nullptr && std::ranges::find(kKeys, canonical) == std::end(kKeys)) {
      std::string allowed;
      for (const std::string_view name : kKeys) {
        allowed += concat(allowed.empty() ? "" : ", ", name);
      }
      return input_error("--set ", setting, ": ", key,
                         " changes nothing in bench, where shape, batch, length and precision are "
                         "flags; allowed: ",
                         allowed);
    }
  }
  return {};
}

Result<train::EngineSpec> spec_of(const Flags& flags) {
  const std::optional<train::BenchShape> shape = train::bench_shape(flags.shape);
  if (!shape) {
    return input_error("--shape ", flags.shape, ": allowed are S, M, L and G");
  }
  for (const auto& [flag, value, least, most] :
       {std::tuple("--batch", flags.batch, int64_t{0}, kSizeMax),
        {"--seq", flags.sequence, int64_t{0}, kSizeMax},
        {"--steps", flags.steps, int64_t{1}, kSizeMax}}) {
    if (value < least || value > most) {
      return input_error(flag, " ", value, ": allowed are ", least, " to ", most);
    }
  }
  const std::optional<Precision> precision = precision_named(flags.precision);
  if (!precision) {
    return input_error("--precision ", flags.precision, ": allowed are fp32, bf16 and fp16");
  }
  const Result<Recompute> recompute = recompute_named(flags.gradient_checkpointing);
  if (!recompute) {
    return recompute.error();
  }
  if (Status status = check_keys(flags.set); !status) {
    return status.error();
  }
  // The keys of a configuration mean here what they mean there.
  const Result<LoadedRun> run = read_run_text(kConfiguration, "bench", {.set = flags.set});
  if (!run) {
    return run.error();
  }
  const int64_t sequence = flags.sequence > 0 ? flags.sequence : shape->sequence_length;
  if (shape->model.positions == PositionKind::kLearned &&
      sequence > shape->model.max_position_embeddings) {
    return input_error("--seq ", sequence, ": allowed are at most the shape's ",
                       shape->model.max_position_embeddings, " learned positions");
  }
  TrainingSpec training = run->run.training;
  training.micro_batch_size = flags.batch > 0 ? flags.batch : shape->micro_batch_size;
  training.precision = *precision;
  training.recompute = *recompute;
  return train::EngineSpec{
      .model = shape->model, .training = training, .sequence_length = sequence};
}

Json to_json(const Flags& flags, int threads, const train::BenchResult& result) {
  Json memory = Json::object();
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    memory[std::string(name_of(static_cast<MemoryCategory>(i)))] = result.ledger.bytes[i];
  }
  return {{"shape", flags.shape},
          {"precision", flags.precision},
          {"threads", threads},
          {"tokens_per_second", result.tokens_per_second},
          {"ms_per_step", result.seconds_per_step * 1e3},
          {"tflops", result.flops_per_second * 1e-12},
          {"peak_tflops_fp32", result.peak_flops_per_second * 1e-12},
          {"peak_share", result.flops_per_second / result.peak_flops_per_second},
          {"memory_bytes", std::move(memory)},
          {"resident_bytes", result.resident_bytes},
          {"page_faults", result.page_faults},
          {"first_step_seconds", result.first_step_end_seconds - process_start_seconds()}};
}

int run_train(const Flags& flags) {
  const Result<train::EngineSpec> spec = spec_of(flags);
  if (!spec) {
    return report(spec.error());
  }
  if (Status status = train::check_extent(*spec); !status) {
    return report(status.error());
  }
  const int threads = train::thread_count(flags.threads);
  const train::BenchResult result = train::bench_training(*spec, {.threads = threads,
                                                                  .steps_min = flags.steps,
                                                                  .seconds_min = flags.seconds,
                                                                  .trace = !flags.trace.empty()});
  if (!flags.trace.empty()) {
    if (Status status = write_chrome_trace(flags.trace, result.ops); !status) {
      return report(status.error());
    }
  }
  const Json json = to_json(flags, threads, result);
  if (flags.json) {
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("%s %s, %d threads: %.0f tokens/s, %.1f ms a step, %.1f %% of the fp32 peak, %s\n",
                flags.shape.c_str(), flags.precision.c_str(), threads, result.tokens_per_second,
                result.seconds_per_step * 1e3, json["peak_share"].get<double>() * 100.0,
                readable_bytes(result.resident_bytes).c_str());
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const bench = app.add_subcommand("bench", "measure this machine");
  bench->require_subcommand(1);
  CLI::App* const command =
      bench->add_subcommand("train", "steady training steps of a fixed shape on random tokens");
  command->add_option("--shape", flags->shape, "S, M, L or G");
  command->add_option("--batch", flags->batch, "sequences of a micro-batch");
  command->add_option("--seq", flags->sequence, "tokens of a sequence");
  command->add_option("--precision", flags->precision, "fp32, bf16 or fp16");
  command->add_option("--gradient-checkpointing", flags->gradient_checkpointing,
                      "false, true, selective or full");
  command->add_option("--set", flags->set, "a key of training: training.optimizer=lion")
      ->allow_extra_args(false);
  command->add_option("--threads", flags->threads, "0: one per processor")
      ->check(CLI::Range(0, kThreadsMax));
  command->add_option("--steps", flags->steps, "timed steps, at least");
  command->add_option("--seconds", flags->seconds, "of timed steps, at least");
  command->add_option("--trace", flags->trace, "write a Chrome trace of one step");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run_train(*flags); });
}

}  // namespace cadre
