// TrainingSpec: how a run learns, as plain data. Names and values are those of
// docs/configuration.md.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cadre {

enum class Precision { kFp32, kBf16, kFp16 };

constexpr std::optional<Precision> precision_named(std::string_view name) {
  if (name == "fp32") {
    return Precision::kFp32;
  }
  if (name == "bf16") {
    return Precision::kBf16;
  }
  return name == "fp16" ? std::optional(Precision::kFp16) : std::nullopt;
}

constexpr std::string_view name_of(Precision precision) {
  return precision == Precision::kFp32 ? "fp32" : (precision == Precision::kBf16 ? "bf16" : "fp16");
}

enum class OptimizerKind { kAdamW, kSgd, kLion, kMuon };
enum class ScheduleKind { kConstant, kLinear, kCosine, kWarmupStableDecay };
enum class Recompute {
  kNone,
  kSelective,  // norms, the activation product and the attention core
  kFull,       // everything but a block's input
};
enum class OnBadStep { kStop, kSkip };  // NaN or infinity, or a spike of the loss

// Parameters whose Hugging Face name matches one of the globs. The first group that matches wins.
struct ParameterGroupSpec {
  std::vector<std::string> parameters = {};
  std::optional<double> learning_rate_scale = std::nullopt;  // times the schedule's value
  std::optional<double> weight_decay = std::nullopt;
  bool frozen = false;

  bool operator==(const ParameterGroupSpec&) const = default;
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9;  // AdamW, Lion
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // decoupled; of tensors with two dimensions or more
  double momentum = 0.0;      // SGD
  bool nesterov = false;      // SGD
  double muon_momentum = 0.95;
  int64_t muon_newton_schulz_steps = 5;
  double muon_learning_rate_scale = 1.0;  // of the matrices that Muon updates, times learning_rate

  bool operator==(const OptimizerSpec&) const = default;
};

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
  double learning_rate = 3e-4;  // the peak
  double min_lr_ratio = 0.1;    // the floor, times the peak
  std::optional<int64_t> warmup_steps = std::nullopt;
  std::optional<double> warmup_ratio =
      std::nullopt;  // of all steps; at most one of the two is given
  std::optional<int64_t> decay_steps = std::nullopt;  // warmup-stable-decay: the last steps
  std::optional<double> decay_ratio = std::nullopt;

  bool operator==(const ScheduleSpec&) const = default;
};

struct TrainingSpec {
  int64_t micro_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  std::optional<int64_t> steps = std::nullopt;  // exactly one of steps and epochs is given
  std::optional<double> epochs = std::nullopt;
  Precision precision = Precision::kFp32;
  Recompute recompute = Recompute::kNone;
  OptimizerSpec optimizer = {};
  ScheduleSpec schedule = {};
  std::vector<ParameterGroupSpec> parameter_groups = {};
  double max_grad_norm = 1.0;                    // 0: no clipping
  double z_loss = 0.0;                           // coefficient of mean(log(sum exp(logits))^2)
  std::optional<double> dropout = std::nullopt;  // overrides the model's dropouts
  double initial_loss_scale = 65536.0;           // fp16
  int64_t loss_scale_window = 2000;              // fp16: steps without overflow before it doubles
  OnBadStep on_bad_step = OnBadStep::kStop;
  int64_t bad_steps_max = 3;          // in a row, when they are skipped
  double loss_spike_threshold = 0.0;  // times the running median; 0: off
  int64_t eval_every = 0;             // steps; 0: only at the end
  int64_t eval_batches_max = 0;       // micro-batches; 0: the whole validation set
  uint64_t seed = 1;

  bool operator==(const TrainingSpec&) const = default;
};

struct CheckpointSpec {
  int64_t every = 0;  // steps; 0: only at the end and when stopped
  int64_t keep = 2;   // newest complete ones that stay; 0: all
  bool save_optimizer = true;

  bool operator==(const CheckpointSpec&) const = default;
};

}  // namespace cadre
