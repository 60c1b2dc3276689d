#include "nn/embedding.h"

#include "base/check.h"
#include "kernels/embedding.h"

namespace cadre::nn {

void Embedding::infer(Context& context, Tensor x_TD, ConstTensor id_T) const {
  kernels::embedding_forward(context, x_TD, table_.value(), id_T, first_row_);
}

void Embedding::add_infer(Context& context, Tensor x_TD, ConstTensor id_T) const {
  kernels::embedding_add_forward(context, x_TD, table_.value(), id_T, first_row_);
}

void Embedding::forward(Context& context, Tensor x_TD, ConstTensor id_T, Stash& stash) const {
  infer(context, x_TD, id_T);
  stash.id_T = id_T;
}

void Embedding::add_forward(Context& context, Tensor x_TD, ConstTensor id_T, Stash& stash) const {
  add_infer(context, x_TD, id_T);
  stash.id_T = id_T;
}

void Embedding::backward_input(ConstTensor dx_TD, Stash& stash) const {
  CADRE_CHECK(!stash.id_T.empty(), "the embedding's backward without its forward");
  stash.dx_TD = dx_TD;
}

void Embedding::backward_weight(Context& context, Stash& stash) const {
  if (!table_.frozen()) {
    kernels::embedding_backward(context, table_.whole_gradient, stash.dx_TD, stash.id_T,
                                first_row_);
  }
  stash = {};
}

}  // namespace cadre::nn
