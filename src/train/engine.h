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

// What an engine is for decides what it has memory for.
enum class Purpose {
  kInference,  // neither gradients nor optimizer
  kGradients,  // gradients, but nothing that moves parameters
  kTraining,
};

struct EngineSpec {
  ModelSpec model = {};
  TrainingSpec training = {};
  int64_t sequence_length = 0;
  Purpose purpose = Purpose::kTraining;
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

  // Forward and backward of micro-batches; gradients are added up. grad_norm is not known yet.
  StepResult accumulate(const StepInput& input, const FillBatch& fill, int64_t micro_batches);

  // The optimizer's part of the step: moves the parameters and clears the gradients. Fills in the
  // norm; if it is not finite nothing was moved.
  void update(const StepInput& input, StepResult& result);

  // Instead of update(): the step leaves no trace.
  void clear_gradients();

  // Both, over gradient_accumulation_steps micro-batches.
  StepResult step(const StepInput& input, const FillBatch& fill);

  // Adds the losses of one micro-batch.
  void evaluate(EvaluationSums& sums, const std::function<void(const HostBatch&)>& fill);

  // After a step that was not finite: which tensor is the first that is not, in the order in which
  // a step makes them. Runs forward and backward again, with checks on, and clears the gradients.
  std::string first_not_finite(const StepInput& input, const FillBatch& fill);

  // Only a rehearsal reads what is booked; elsewhere the list would grow with every pass. Called
  // before each micro-batch here, and by who runs the stage by himself.
  void forget_bookings();

  Context& context() { return context_; }
  model::Stage& stage() { return *stage_; }
  nn::ParameterStore& store() { return store_; }
  const nn::ParameterStore& store() const { return store_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const EngineSpec& spec() const { return spec_; }
  Arena& activations() { return activations_; }
  int64_t positions() const { return spec_.sequence_length; }

  // The micro-batch that was filled last, as the stage sees it.
  model::Batch filled_batch() const { return device_view({}, 0); }

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
  Context context_;
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
