// Embedding: rows of a table for tokens, or for positions, on one device.
//
// Legend: T tokens, V rows of the table, D width.

#pragma once

#include "device/context.h"
#include "nn/parameter.h"
#include "tensor/tensor.h"

namespace cadre::nn {

class Embedding {
 public:
  struct Stash {
    ConstTensor id_T;
    ConstTensor dx_TD;
  };

  Embedding(ParameterUnit& unit, const ParameterSpec& table)
      : table_(unit.declare({table})), first_row_(table.box().first[0]) {}

  //   x = table[id], or x += table[id]      ids are i32 and live until backward_weight()
  void forward(Context& context, Tensor x_TD, ConstTensor id_T, Stash& stash) const;
  void add_forward(Context& context, Tensor x_TD, ConstTensor id_T, Stash& stash) const;
  void infer(Context& context, Tensor x_TD, ConstTensor id_T) const;
  void add_infer(Context& context, Tensor x_TD, ConstTensor id_T) const;

  // Ids have no gradient: backward_input only keeps dx for backward_weight.
  void backward_input(ConstTensor dx_TD, Stash& stash) const;

  //   dtable[id[t]] += dx[t]
  void backward_weight(Context& context, Stash& stash) const;

 private:
  ParameterStack& table_;
  int64_t first_row_;  // of this rank's part of the table
};

}  // namespace cadre::nn
