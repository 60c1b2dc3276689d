// Linear: y = x W^T + b on one device.
//
// Legend: T rows (tokens), I input width, O output width. W has O rows of I values.

#pragma once

#include <vector>

#include "device/context.h"
#include "nn/parameter.h"
#include "tensor/tensor.h"

namespace cadre::nn {

// What a linear layer declares. Several weights lie under one another: O is the sum of their rows.
struct LinearSpec {
  std::vector<ParameterSpec> weights = {};
  std::vector<ParameterSpec> biases = {};  // none, or the parts of O in the order of the weights
  bool transposed = false;                 // stored as I rows of O values (GPT-2); one weight only
};

class Linear {
 public:
  // What one micro-batch leaves for its backward pass: views into memory that must live until
  // backward_weight(). Filled by forward() and backward_input(), emptied by backward_weight().
  struct Stash {
    ConstTensor x_TI;
    ConstTensor dy_TO;
  };

  Linear(ParameterUnit& unit, const LinearSpec& spec);

  //   y = x W^T + b
  void forward(Context& context, Tensor y_TO, ConstTensor x_TI, Stash& stash) const;

  // The same for who will not come back.
  void infer(Context& context, Tensor y_TO, ConstTensor x_TI) const;

  //   dx = dy W     overwrites dx
  void backward_input(Context& context, Tensor dx_TI, ConstTensor dy_TO, Stash& stash) const;

  //   dW += dy^T x,  db += sum over rows of dy
  //
  // Adds; at any later time, in any order of micro-batches, once per stash.
  void backward_weight(Context& context, Stash& stash) const;

  // After a recomputation x lies elsewhere, with the same values.
  static void move_input(Stash& stash, ConstTensor x_TI) { stash.x_TI = x_TI; }

  // Whether backward_weight() reads x. If not, its memory may be given back after forward().
  bool reads_input_again() const { return !weight_.frozen(); }

  int64_t output_width() const { return output_width_; }

 private:
  ConstTensor weight_OI() const;

  ParameterStack& weight_;  // the store's; outlives the layer
  ParameterStack* bias_;    // null: none
  bool transposed_;
  int64_t output_width_;
};

}  // namespace cadre::nn
