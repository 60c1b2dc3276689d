// Optimizer: moves every trainable parameter once a step, from its summed gradient.
//
// Matrices and vectors are told apart by role: with Muon, hidden matrices are orthogonalised and
// all else is AdamW's. State is named after the parameter, so that checkpoints know what is whose.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/context.h"
#include "nn/parameter.h"
#include "spec/training.h"
#include "tensor/tensor.h"

namespace cadre::optim {

// A parameter as the optimizer sees it. Options by group (globs on names) are already applied.
struct OptimizedParameter {
  nn::Parameter* parameter = nullptr;  // the store's; outlives the optimizer; not frozen
  float learning_rate_scale = 1.0f;
  float weight_decay = 0.0f;
};

// A tensor of state under the name it has in checkpoints: "exp_avg/NAME", "momentum/NAME".
struct StateTensor {
  std::string name;
  const nn::Parameter* parameter = nullptr;  // whose shape and shard it has
  Tensor tensor;                             // f32
};

struct StepOptions {
  double learning_rate = 0.0;
  float loss_scale = 1.0f;
  float max_grad_norm = 0.0f;  // 0: no clipping
};

class Optimizer {
 public:
  // Takes memory for the state from `memory`, which outlives the optimizer, and clears it.
  Optimizer(Context& context, Arena& memory, const OptimizerSpec& spec,
            std::vector<OptimizedParameter> parameters);

  // One update of all parameters from their gradients, which are cleared. `count_1` is the number
  // of targets of the global batch (f32). Where a gradient is not finite nothing is moved; the host
  // sees it in norm_1() and then takes the count back with set_updates(updates() - 1), so that bias
  // corrections go on as if the step had not been.
  void step(Context& context, ConstTensor count_1, const StepOptions& options);

  ConstTensor norm_1() const { return norm_1_; }  // before clipping; NaN if not finite
  // Squared norm of every parameter's summed gradient in the last step, in the order of
  // parameters().
  ConstTensor squared_P() const { return squared_P_; }
  const std::vector<OptimizedParameter>& parameters() const { return parameters_; }

  std::vector<StateTensor> state();
  int64_t updates() const { return updates_; }  // the exponent of the bias correction
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  // Which update a parameter has, and its state.
  struct Member {
    OptimizerKind kind = OptimizerKind::kAdamW;
    OwnedTensor first;   // first moment or momentum; empty: none
    OwnedTensor second;  // second moment; empty: none
  };

  OptimizerKind kind_for(const nn::Parameter& parameter) const;
  void update(Context& context, const OptimizedParameter& options, Member& member,
              double learning_rate);
  void muon_update(Context& context, const OptimizedParameter& options, Member& member,
                   float learning_rate);

  OptimizerSpec spec_;
  std::vector<OptimizedParameter> parameters_;
  std::vector<Member> members_;
  OwnedTensor squared_P_;
  OwnedTensor norm_1_;
  OwnedTensor scale_1_;
  int64_t updates_ = 0;
};

// What `spec` says of every parameter that is not frozen: the first group that matches wins, and
// decay is for tensors with two dimensions or more unless a group says otherwise.
std::vector<OptimizedParameter> optimized_parameters(nn::ParameterStore& store,
                                                     const TrainingSpec& spec);

}  // namespace cadre::optim
