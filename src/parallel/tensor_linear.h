// The two tensor-parallel forms of nn::Linear: one weight, cut over the ranks of a group. In a
// group of one either form is the plain layer.
//
// Legend: T rows (tokens), I input width, O output width, N ranks. A *_shard is this rank's part.

#pragma once

#include "comm/collective.h"
#include "nn/linear.h"

namespace cadre::parallel {

// Rank r holds rows [r*O/N, (r+1)*O/N) of every weight and bias and computes those columns of y.
//   forward: no communication.    backward_input: all-reduce of dx.
class ColumnParallelLinear {
 public:
  using Stash = nn::Linear::Stash;

  // `spec` describes whole tensors. `group` outlives the layer.
  ColumnParallelLinear(nn::ParameterUnit& unit, const nn::LinearSpec& spec,
                       comm::Collective& group);

  void forward(Context& context, Tensor y_shard, ConstTensor x_TI, Stash& stash) const {
    shard_.forward(context, y_shard, x_TI, stash);
  }
  void infer(Context& context, Tensor y_shard, ConstTensor x_TI) const {
    shard_.infer(context, y_shard, x_TI);
  }

  // dx is complete when the result has been waited for; backward_weight() fits in between.
  comm::Pending backward_input(Context& context, Tensor dx_TI, ConstTensor dy_shard,
                               Stash& stash) const;

  void backward_weight(Context& context, Stash& stash) const {
    shard_.backward_weight(context, stash);
  }

  bool reads_input_again() const { return shard_.reads_input_again(); }
  int64_t output_width() const { return shard_.output_width(); }  // of this rank

 private:
  comm::Collective& group_;
  nn::Linear shard_;
};

// Rank r holds columns [r*I/N, (r+1)*I/N) of W and reads those columns of x. (With N > 1 it has no
// bias yet: a bias must be added once, after the sum.)
//   forward: all-reduce of y.    backward: no communication.
//
// Fed by a ColumnParallelLinear, the pair costs one all-reduce in each direction.
class RowParallelLinear {
 public:
  using Stash = nn::Linear::Stash;

  RowParallelLinear(nn::ParameterUnit& unit, const nn::LinearSpec& spec, comm::Collective& group);

  // y is complete when the result has been waited for.
  comm::Pending forward(Context& context, Tensor y_TO, ConstTensor x_shard, Stash& stash) const;
  comm::Pending infer(Context& context, Tensor y_TO, ConstTensor x_shard) const;

  // Every rank has all of dy, so nothing is summed here: a sum would count it N times.
  void backward_input(Context& context, Tensor dx_shard, ConstTensor dy_TO, Stash& stash) const {
    shard_.backward_input(context, dx_shard, dy_TO, stash);
  }
  void backward_weight(Context& context, Stash& stash) const {
    shard_.backward_weight(context, stash);
  }

  bool reads_input_again() const { return shard_.reads_input_again(); }

 private:
  comm::Collective& group_;
  nn::Linear shard_;
};

}  // namespace cadre::parallel
