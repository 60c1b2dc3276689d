// LossHead: logits and cross entropy of a chunk of tokens at a time, so that the logits of a whole
// micro-batch are never in memory.
//
// Legend: T tokens, D width, V rows of the head (here: this rank's part of the vocabulary), C
// tokens of a chunk.

#pragma once

#include <cstdint>
#include <functional>

#include "device/context.h"
#include "nn/parameter.h"
#include "tensor/tensor.h"

namespace cadre::nn {

// Running sums over micro-batches, one f32 each; cleared by the step loop.
struct LossSums {
  Tensor loss_1;   // of lse - target logit
  Tensor z_1;      // of lse^2
  Tensor count_1;  // of targets that count
};

class LossHead {
 public:
  struct Options {
    float gradient_scale =
        1.0f;  // the seed of the backward pass: the gradient of the sum, times it
    float z_loss = 0.0f;
  };

  // What ranks that hold other parts of the vocabulary agree on; in a group of one, nothing.
  // Called for every chunk, after its statistics and before its loss.
  using Agree =
      std::function<void(Context& context, Tensor max_C, Tensor sum_C, Tensor target_logit_C)>;

  LossHead(ParameterUnit& unit, const ParameterSpec& weight)
      : weight_(unit.declare({weight})), first_row_(weight.box().first[0]) {}

  // Adds to the sums. Needs `activations` for one chunk of logits.
  void forward(Context& context, Arena& activations, const LossSums& sums, ConstTensor x_TD,
               ConstTensor target_T, const Agree& agree) const;

  // As forward, and at once the backward pass, since the logits are gone afterwards: dx is
  // overwritten, the weight's gradient added to (its product cannot be put off). dx sums over this
  // rank's part of the vocabulary only.
  void forward_backward(Context& context, Arena& activations, const LossSums& sums, Tensor dx_TD,
                        ConstTensor x_TD, ConstTensor target_T, const Options& options,
                        const Agree& agree) const;

  //   logits = x W^T      f32
  void logits(Context& context, Tensor logits_TV, ConstTensor x_TD) const;

  int64_t rows() const { return weight_.members.front()->spec.box().size[0]; }

 private:
  int64_t chunk_tokens(ConstTensor x_TD) const;
  void chunk_loss(Context& context, Arena& activations, const LossSums& sums, Tensor logits_CV,
                  Tensor lse_C, ConstTensor x_CD, ConstTensor target_C, const Agree& agree) const;

  ParameterStack& weight_;
  int64_t first_row_;
};

}  // namespace cadre::nn
