// Embedding and loss over a vocabulary that is cut over the ranks of a group: each holds a range of
// rows. In a group of one they are the plain layers.
//
// Legend: T tokens, D width, N ranks.

#pragma once

#include "comm/collective.h"
#include "nn/embedding.h"
#include "nn/loss_head.h"

namespace cadre::parallel {

//   forward: all-reduce of x (a rank gives zeros for ids of others).    backward: no communication.
class VocabularyEmbedding {
 public:
  using Stash = nn::Embedding::Stash;

  // `table` describes the whole tensor. `group` outlives the layer.
  VocabularyEmbedding(nn::ParameterUnit& unit, const nn::ParameterSpec& table,
                      comm::Collective& group);

  // x is complete when the result has been waited for.
  comm::Pending forward(Context& context, Tensor x_TD, ConstTensor id_T, Stash& stash) const;
  comm::Pending infer(Context& context, Tensor x_TD, ConstTensor id_T) const;

  void backward_input(ConstTensor dx_TD, Stash& stash) const {
    shard_.backward_input(dx_TD, stash);
  }
  void backward_weight(Context& context, Stash& stash) const {
    shard_.backward_weight(context, stash);
  }

 private:
  comm::Collective& group_;
  nn::Embedding shard_;
};

//   forward: three all-reduces of one number per token.    backward: all-reduce of dx.
class VocabularyLossHead {
 public:
  VocabularyLossHead(nn::ParameterUnit& unit, const nn::ParameterSpec& weight,
                     comm::Collective& group);

  void forward(Context& context, Arena& activations, const nn::LossSums& sums, ConstTensor x_TD,
               ConstTensor target_T) const;

  // dx is complete when the result has been waited for.
  comm::Pending forward_backward(Context& context, Arena& activations, const nn::LossSums& sums,
                                 Tensor dx_TD, ConstTensor x_TD, ConstTensor target_T,
                                 const nn::LossHead::Options& options) const;

  // f32, this rank's columns.
  void logits(Context& context, Tensor logits_shard, ConstTensor x_TD) const {
    shard_.logits(context, logits_shard, x_TD);
  }

 private:
  nn::LossHead::Agree agreement() const;

  comm::Collective& group_;
  nn::LossHead shard_;
};

}  // namespace cadre::parallel
