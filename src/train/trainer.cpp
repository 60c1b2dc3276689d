#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <fstream>
#include <optional>

#include "base/step_error.h"
#include "checkpoint/reader.h"
#include "kernels/peak.h"
#include "model/family.h"
#include "optim/loss_scale.h"
#include "optim/schedule.h"
#include "spec/print.h"
#include "storage/safe_writer.h"
#include "telemetry/resident.h"
#include "telemetry/tensorboard.h"
#include "train/checkpoint_files.h"
#include "train/evaluation.h"
#include "train/limits.h"
#include "train/progress.h"
#include "train/rehearsal.h"
#include "train/resumption.h"
#include "train/run_folder.h"
#include "train/run_setup.h"
#include "train/run_state.h"
#include "train/sample_text.h"
#include "train/signals.h"
#include "train/weights.h"

namespace cadre::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string_view torch_dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "float32";
    case Precision::kBf16:
      return "bfloat16";
    case Precision::kFp16:
      return "float16";
  }
  return "float32";
}

std::vector<SourceState> training_sources(const RunSetup& setup) {
  std::vector<SourceState> sources;
  for (size_t i = 0; i < setup.spec.data.sources.size(); ++i) {
    const data::SourceReport& report = setup.dataset->reports()[i];
    sources.push_back({.name = report.name, .tokens = report.tokens, .checksum = report.checksum});
  }
  return sources;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One run, from its set-up to its end.
class Run {
 public:
  Run(RunFolder folder, RunSetup setup, Log& log, const TrainOptions& options)
      : folder_(std::move(folder)),
        setup_(std::move(setup)),
        log_(log),
        options_(options),
        progress_({.stream = stdout, .json = options.log_json, .total_steps = setup_.total_steps}) {
  }

  Status prepare(const std::optional<CheckpointInfo>& checkpoint);
  Result<RunEnd> train();
  void end_line() { progress_.end_line(); }

 private:
  Status make_engine();
  Status write_folder();
  Status resume(const CheckpointInfo& checkpoint);
  Status one_step();
  Result<bool> settle_bad_step(const StepInput& input, const StepResult& result,
                               const FillBatch& fill);
  FillBatch fill();
  std::string samples() const;
  std::optional<double> evaluate();
  Status record(const StepMetrics& metrics);
  enum class Why { kEvery, kStopped };
  Status save(Why why);
  Status finish();

  RunFolder folder_;
  RunSetup setup_;
  Log& log_;
  TrainOptions options_;
  Progress progress_;
  std::FILE* rank_log_ = nullptr;
  Rehearsal rehearsal_;
  std::unique_ptr<Engine> engine_;
  std::optional<MetricsFile> metrics_;
  std::optional<TensorBoardFile> tensorboard_;
  std::optional<optim::LossScale> loss_scale_;
  RunState state_;
  int64_t saved_step_ = -1;
  fs::path newest_checkpoint_;  // of this run, or the one that it was taken up from
  std::optional<double> last_validation_;
  double peak_flops_ = 0.0;  // fp32 FMA of this machine
};

Status Run::make_engine() {
  const EngineSpec spec = engine_spec(setup_.spec, setup_.model);
  const Target target = detect_cpu_target();
  rehearsal_ =
      rehearse(spec, {.target = target, .threads = setup_.threads, .text = sample_length(setup_)});
  if (Status status = check_memory(rehearsal_.ledger); !status) {
    return status;
  }
  engine_ = std::make_unique<Engine>(spec, Device{.kind = DeviceKind::kCpu, .target = target},
                                     setup_.threads, rehearsal_.ledger);
  if (std::ranges::all_of(engine_->store().parameters(), &nn::Parameter::frozen)) {
    return input_error(
        "training.parameter_groups: every parameter is frozen, so that nothing would be trained");
  }
  peak_flops_ = kernels::measure_peak_flops(engine_->context());
  if (setup_.spec.training.precision == Precision::kFp16) {
    loss_scale_.emplace(setup_.spec.training.initial_loss_scale,
                        setup_.spec.training.loss_scale_window);
  }
  return {};
}

Status Run::write_folder() {
  if (Status status = folder_.create(); !status) {
    return status;
  }
  Result<SafeWriter> run_yaml = SafeWriter::create(folder_.run_yaml());
  if (!run_yaml) {
    return run_yaml.error();
  }
  if (Status status = run_yaml->append(print_run(setup_.spec)); !status) {
    return status;
  }
  if (Result<FileSummary> written = run_yaml->publish(); !written) {
    return written.error();
  }
  if (options_.resume == TrainOptions::Resume::kFrom) {
    if (Status status = folder_.set_origin(options_.resume_from); !status) {
      return status;
    }
  }
  if (setup_.tokenizer != nullptr) {
    if (Status status = setup_.tokenizer->save(folder_.path().string()); !status) {
      return status;
    }
  }
  rank_log_ = std::fopen(folder_.rank_log().c_str(), "a");
  if (rank_log_ == nullptr) {
    return failure(folder_.rank_log().string(), ": cannot be written");
  }
  log_.copy_to(rank_log_);
  return {};
}

Status Run::resume(const CheckpointInfo& checkpoint) {
  Result<Json> json = read_trainer_state(checkpoint.path);
  if (!json) {
    return json.error();
  }
  Result<RunState> state = read_run_state(*json, checkpoint.path.string());
  if (!state) {
    return state.error();
  }
  const std::vector<SourceState> sources = state_.sources;
  if (Status status = check_same_data(state->sources, sources, checkpoint.path.string()); !status) {
    return status;
  }
  if (Status status = load_checkpoint(*engine_, checkpoint.path, *json); !status) {
    return status;
  }
  state_ = *state;
  state_.sources = sources;
  newest_checkpoint_ = checkpoint.path;
  saved_step_ = state_.step;
  if (loss_scale_ && state_.loss_scale > 0.0) {
    loss_scale_->restore(state_.loss_scale, state_.good_steps);
  }
  log_.info("train", fmt::format("resumed path=\"{}\" step={} samples={}",
                                 checkpoint.path.filename().string(), state_.step, state_.samples));
  return {};
}

Status Run::prepare(const std::optional<CheckpointInfo>& checkpoint) {
  state_.sources = training_sources(setup_);
  if (!checkpoint && !setup_.weights.empty()) {
    if (Status status = check_weights(engine_spec(setup_.spec, setup_.model), setup_.weights);
        !status) {
      return status;
    }
  }
  if (Status status = make_engine(); !status) {
    return status;
  }
  if (checkpoint) {
    if (Status status = resume(*checkpoint); !status) {
      return status;
    }
  } else if (!setup_.weights.empty()) {
    if (Status status = load_weights(*engine_, setup_.weights); !status) {
      return status;
    }
  } else {
    engine_->store().initialize(engine_->context(), setup_.spec.training.seed);
  }
  setup_.cache_undo->keep();
  if (Status status = write_folder(); !status) {
    return status;
  }
  Result<MetricsFile> metrics = MetricsFile::open(folder_.metrics(), state_.step);
  if (!metrics) {
    return metrics.error();
  }
  metrics_.emplace(std::move(*metrics));
  Result<TensorBoardFile> tensorboard = TensorBoardFile::create(folder_.path());
  if (!tensorboard) {
    return tensorboard.error();
  }
  tensorboard_.emplace(std::move(*tensorboard));
  return {};
}

FillBatch Run::fill() {
  const int64_t first = state_.samples;
  return [this, first](int64_t micro_batch, const HostBatch& batch) {
    const int64_t size = setup_.spec.training.micro_batch_size;
    setup_.training->fill(first + micro_batch * size, as_data_batch(batch));
  };
}

// The numbers of the step's samples, and where the first of them come from.
std::string Run::samples() const {
  constexpr int64_t kDescribedMax = 8;
  const int64_t count = setup_.samples_per_step();
  std::string text = fmt::format("samples {} to {}", state_.samples, state_.samples + count - 1);
  const auto length = static_cast<size_t>(setup_.spec.data.sequence_length);
  std::vector<int32_t> row(4 * length);
  const std::span<int32_t> parts(row);
  for (int64_t i = 0; i < std::min(count, kDescribedMax); ++i) {
    data::SampleId id;
    setup_.training->fill(state_.samples + i, {.tokens = parts.subspan(0, length),
                                               .targets = parts.subspan(length, length),
                                               .positions = parts.subspan(2 * length, length),
                                               .starts = parts.subspan(3 * length, length),
                                               .ids = {&id, 1}});
    text += "; " + setup_.training->describe(id);
  }
  return text + (count > kDescribedMax ? "; ..." : "");
}

// True: the run goes on without this step. What is wrong is said either way.
Result<bool> Run::settle_bad_step(const StepInput& input, const StepResult& result,
                                  const FillBatch& fill) {
  const TrainingSpec& training = setup_.spec.training;
  const bool spike = result.finite;
  std::string what;
  if (spike) {
    what = fmt::format("the loss {:.4f} is more than {} times the running median", result.loss,
                       training.loss_spike_threshold);
  } else {
    what = fmt::format("the {} is not finite, first in {}",
                       std::isfinite(result.loss) ? "gradient" : "loss",
                       engine_->first_not_finite(input, fill));
    if (loss_scale_ && std::isfinite(result.loss)) {
      what += fmt::format(
          ", though the loss scale of fp16 is down to {}: precision: bf16 has the "
          "range that is missing",
          loss_scale_->value());
    }
  }
  const std::string message = fmt::format("step {}: {} ({})", state_.step + 1, what, samples());
  ++state_.bad_steps;
  if (training.on_bad_step == OnBadStep::kSkip && state_.bad_steps <= training.bad_steps_max) {
    progress_.end_line();
    log_.warning("train", message + "; the step is skipped");
    return true;
  }
  if (training.on_bad_step == OnBadStep::kSkip) {
    return failure(message, "; ", training.bad_steps_max,
                   " steps in a row have been skipped before it");
  }
  return failure(message,
                 "; resume from the last checkpoint with a lower learning_rate, or with "
                 "training.on_bad_step=skip");
}

Status Run::one_step() {
  const auto start = Clock::now();
  const TrainingSpec& training = setup_.spec.training;
  const StepInput input{
      .step = state_.step,
      .learning_rate = optim::learning_rate_at(training.schedule, state_.step, setup_.total_steps),
      .loss_scale = loss_scale_ ? loss_scale_->seed(setup_.tokens_per_step()) : 1.0f};
  const FillBatch fill_batch = fill();
  StepResult result = engine_->accumulate(input, fill_batch, training.gradient_accumulation_steps);
  bool bad = !result.finite || is_spike(state_, result.loss, training.loss_spike_threshold);
  bool skipped = bad;
  if (bad) {
    engine_->clear_gradients();
  } else {
    engine_->update(input, result);
    bad = !result.finite;
    skipped = bad;
    if (loss_scale_ && std::isfinite(result.loss)) {
      // An overflow of a scaled gradient is expected now and then; a scale at its floor is not.
      bad = !loss_scale_->update(!result.finite);
    }
  }
  if (bad) {
    Result<bool> skip = settle_bad_step(input, result, fill_batch);
    if (!skip) {
      return skip.error();
    }
  } else {
    state_.bad_steps = 0;
    remember(state_, result.loss);
  }
  ++state_.step;
  state_.samples += setup_.samples_per_step();
  const int64_t tokens = setup_.tokens_per_step();
  state_.tokens += tokens;
  log_.set_step(state_.step);

  StepMetrics metrics{.step = state_.step,
                      .loss = result.loss,
                      .grad_norm = result.grad_norm,
                      .learning_rate = input.learning_rate,
                      .tokens = state_.tokens,
                      .skipped = skipped};
  const double seconds = seconds_since(start);
  metrics.step_ms = seconds * 1e3;
  metrics.tokens_per_second = static_cast<double>(tokens) / seconds;
  if (training.z_loss > 0.0) {
    metrics.z_loss = result.z_loss;
  }
  if (loss_scale_) {
    metrics.loss_scale = loss_scale_->value();
  }
  const bool last = state_.step == setup_.total_steps;
  if (last || (training.eval_every > 0 && state_.step % training.eval_every == 0)) {
    metrics.validation_loss = evaluate();
  }
  return record(metrics);
}

std::optional<double> Run::evaluate() {
  last_validation_.reset();
  if (setup_.validation == nullptr) {
    return std::nullopt;
  }
  // A stop must not wait for the end of a long evaluation.
  const std::optional<EvaluationSums> sums =
      evaluate_stream(*engine_, *setup_.validation,
                      {.batches_max = setup_.spec.training.eval_batches_max,
                       .stop = [] { return StopSignals::received() != 0; }});
  if (!sums || sums->target_tokens == 0) {
    return std::nullopt;
  }
  last_validation_ = sums->loss / static_cast<double>(sums->target_tokens);
  return last_validation_;
}

Status Run::record(const StepMetrics& given) {
  StepMetrics metrics = given;
  metrics.memory = engine_->peaks();
  metrics.resident_bytes = resident_bytes();
  if (peak_flops_ > 0.0) {
    metrics.mfu = metrics.tokens_per_second * rehearsal_.flops_per_token / peak_flops_;
  }
  progress_.show(metrics);
  if (Status status = metrics_->append(metrics); !status) {
    return status;
  }
  std::vector<Scalar> scalars = {{"train/loss", metrics.loss},
                                 {"train/grad_norm", metrics.grad_norm},
                                 {"train/lr", metrics.learning_rate},
                                 {"train/tokens_per_second", metrics.tokens_per_second}};
  if (metrics.validation_loss) {
    scalars.push_back({"validation/loss", *metrics.validation_loss});
  }
  return tensorboard_->append(metrics.step, scalars);
}

// A run that stops must be able to go on, so then the optimizer is always saved.
Status Run::save(Why why) {
  const auto start = Clock::now();
  if (loss_scale_) {
    state_.loss_scale = loss_scale_->value();
    state_.good_steps = loss_scale_->good_steps();
  }
  CheckpointContents contents;
  contents.model = model_tensors(*engine_);
  if (setup_.spec.checkpoint.save_optimizer || why == Why::kStopped) {
    contents.optimizer = optimizer_tensors(*engine_);
  }
  contents.config =
      model::write_model_config(setup_.model, torch_dtype_of(setup_.spec.training.precision));
  contents.trainer_state = write_run_state(state_, engine_->optimizer().updates());
  contents.files = files_of_checkpoint(setup_, folder_);
  Result<SavedCheckpoint> saved = save_checkpoint(folder_.checkpoints(), state_.step, contents);
  if (!saved) {
    return saved.error();
  }
  saved_step_ = state_.step;
  newest_checkpoint_ = saved->path;
  progress_.end_line();
  log_.info("checkpoint",
            fmt::format("saved path=\"{}\" bytes={} seconds={:.1f}",
                        saved->path.filename().string(), saved->bytes, seconds_since(start)));
  return purge_checkpoints(folder_.checkpoints(), setup_.spec.checkpoint.keep, state_.step,
                           [this](const std::string& note) { log_.info("checkpoint", note); });
}

Status Run::finish() {
  progress_.end_line();
  if (!last_validation_) {
    evaluate();  // a run that was done before
  }
  if (options_.log_json) {
    return {};
  }
  if (last_validation_) {
    fmt::print("validation loss {:.4f} (perplexity {:.2f})\n", *last_validation_,
               std::exp(*last_validation_));
  }
  if (setup_.tokenizer != nullptr && setup_.spec.sample.tokens > 0) {
    fmt::print("sample: {}\n", sample_text(*engine_, setup_));
  }
  fmt::print("checkpoint {}\nmetrics    {}\n", newest_checkpoint_.string(),
             folder_.metrics().string());
  std::fflush(stdout);
  return {};
}

Result<RunEnd> Run::train() {
  const int64_t every = setup_.spec.checkpoint.every;
  log_.set_step(state_.step);
  while (state_.step < setup_.total_steps) {
    if (Status status = one_step(); !status) {
      progress_.end_line();
      return status.error();
    }
    const bool deaf = std::ferror(stdout) != 0;  // nobody reads any more
    const bool stop = StopSignals::received() != 0 || deaf;
    const bool last = state_.step == setup_.total_steps;
    if (stop || last || (every > 0 && state_.step % every == 0)) {
      if (Status status = save(stop && !last ? Why::kStopped : Why::kEvery); !status) {
        return status.error();
      }
    }
    if (stop && !last) {
      log_.info("train", deaf ? "stopped, as stdout cannot be written; the same command continues"
                              : "stopped on request; the same command continues");
      return RunEnd::kStopped;
    }
  }
  if (Status status = finish(); !status) {
    return status.error();
  }
  return RunEnd::kDone;
}

}  // namespace

Result<RunEnd> train_run(const LoadedRun& loaded, const TrainOptions& options) {
  const StopSignals signals;
  Log log({.stream = stderr});
  Result<RunFolder> folder = RunFolder::find(loaded.run.output);
  if (!folder) {
    return folder.error();
  }
  Result<std::optional<CheckpointInfo>> checkpoint = find_checkpoint(*folder, options, log);
  if (!checkpoint) {
    return checkpoint.error();
  }
  if (checkpoint->has_value()) {
    if (Status status = check_same_run(**checkpoint, loaded.run, log); !status) {
      return status.error();
    }
  }
  for (const std::string& note : loaded.notes) {
    log.info("spec", note);
  }
  const fs::path tokenizer =
      checkpoint->has_value() ? (*checkpoint)->path / "tokenizer.json" : fs::path();
  const auto stop = [] { return StopSignals::received() != 0; };
  Result<RunSetup> setup =
      set_up_run(loaded, {.trained_tokenizer = tokenizer, .log = &log, .stop = stop});
  if (!setup && stop()) {
    log.info("train", "stopped on request; the same command continues");
    return RunEnd::kStopped;
  }
  if (!setup) {
    return setup.error();
  }
  if (checkpoint->has_value()) {
    if (Status status = check_same_model(**checkpoint, setup->model); !status) {
      return status.error();
    }
  }
  Run run(std::move(*folder), std::move(*setup), log, options);
  try {
    if (Status status = run.prepare(*checkpoint); !status) {
      return status.error();
    }
    return run.train();
  } catch (const StepError& error) {
    run.end_line();
    return failure(error.what());
  }
}

}  // namespace cadre::train
