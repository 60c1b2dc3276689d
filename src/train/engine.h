// Engine: the model, its parameters and its optimizer on one device, and what is done with them in
// a step. The same class runs a step and, on meta, rehearses one: there it allocates nothing and
// computes nothing, and what is left is the ledger and the trace.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/context.h"
#include "model/stage.h"
#include "nn/parameter.h"
#include "optim/optimizer.h"
#include "parallel/mesh.h"
#include "spec/model.h"
#include "spec/training.h"
#include "telemetry/ledger.h"

namespace cadre::train {

struct EngineSpec {
  ModelSpec model = {};
  TrainingSpec training = {};
  int64_t sequence_length = 0;
  bool trains = true;               // false: no gradients and no optimizer, for evaluation alone
  bool separate_documents = false;  // attention does not cross the start of a document
};

// The numbers of a micro-batch in host memory, [B, S] each; starts are ignored unless documents are
// kept apart.
struct HostBatch {
  std::span<int32_t> tokens, targets, positions, starts;
};

// Fills micro-batch `index` of the step.
using FillBatch = std::function<void(int64_t index, const HostBatch& batch)>;

struct StepInput {
  int64_t step = 0;  // from 0; keys dropout
  double learning_rate = 0.0;
  float loss_scale = 1.0f;
};

struct StepResult {
  double loss = 0.0;    // mean cross entropy over all target tokens of the global batch
  double z_loss = 0.0;  // coefficient included; not part of `loss`
  int64_t target_tokens = 0;
  double grad_norm = 0.0;  // of the normalised gradient, before clipping
  bool finite = true;      // else nothing was updated
};

struct EvaluationSums {
  double loss = 0.0;  // sum over target tokens
  int64_t target_tokens = 0;
};

class Engine {
 public:
  // On meta, `capacity` is ignored; otherwise it comes from a rehearsal of the same spec.
  Engine(const EngineSpec& spec, const Device& device, int threads, const Ledger& capacity);
  ~Engine();
  Engine(const Engine&) = delete;

  // One optimizer step over gradient_accumulation_steps micro-batches.
  StepResult step(const StepInput& input, const FillBatch& fill);

  // Forward and backward of the same micro-batches, gradients kept: for `probe`, and to look for
  // the first tensor that is not finite. Nothing is updated.
  StepResult accumulate(const StepInput& input, const FillBatch& fill, int64_t micro_batches);
  void clear_gradients();

  // Adds the losses of one micro-batch.
  void evaluate(EvaluationSums& sums, const std::function<void(const HostBatch&)>& fill);

  // After a step that was not finite: which tensor is the first that is not. Runs the forward pass
  // of the step again, with checks on.
  std::string first_not_finite(const StepInput& input, const FillBatch& fill);

  Context& context() { return *context_; }
  model::Stage& stage() { return *stage_; }
  nn::ParameterStore& store() { return store_; }
  const nn::ParameterStore& store() const { return store_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  bool trains() const { return spec_.trains; }
  const EngineSpec& spec() const { return spec_; }
  Arena& activations() { return activations_; }
  int64_t positions() const { return spec_.sequence_length; }

  Ledger peaks() const;

 private:
  struct DeviceBatch {
    OwnedTensor tokens, targets, positions, starts;
  };

  Arena::Options arena_options(MemoryCategory category, const Ledger& capacity) const;
  void declare_optimizer();
  HostBatch host_view();
  model::Batch device_view(const StepInput& input, int64_t micro_batch) const;
  void clear_sums();
  double read(ConstTensor one) const;
  StepResult read_sums() const;

  EngineSpec spec_;
  Device device_;
  std::unique_ptr<MemorySource> source_;
  Trace trace_;
  Arena parameters_, gradients_, optimizer_memory_, activations_, workspace_;
  ThreadPool threads_;
  std::unique_ptr<Context> context_;
  parallel::Mesh mesh_;
  nn::ParameterStore store_;
  std::unique_ptr<model::Stage> stage_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  DeviceBatch batch_;
  OwnedTensor sums_3_;  // loss, z, count
  model::Stage::Slot slot_;
};

// The dtype of compute for a precision.
constexpr DType compute_dtype(Precision precision) {
  return precision == Precision::kFp32
             ? DType::kF32
             : (precision == Precision::kBf16 ? DType::kBf16 : DType::kF16);
}

}  // namespace cadre::train
