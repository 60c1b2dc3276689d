// Rows of a table, looked up by number.
//
// Legend: T tokens, V rows of the table (here: [first_row, first_row + V) of the whole vocabulary),
// D width. Ids are i32; one outside this part of the table gives zeros and no gradient, so that the
// parts of several ranks add up to the whole.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

//   x[t] = table[id[t] - first_row]       x and table are f32, bf16 or f16, both the same
void embedding_forward(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                       int64_t first_row);

//   x[t] += table[id[t] - first_row]
void embedding_add_forward(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                           int64_t first_row);

//   dtable[id[t] - first_row] += dx[t]    dtable is f32; t in ascending order, whatever the threads
void embedding_backward(Context& context, Tensor dtable_VD, ConstTensor dx_TD, ConstTensor id_T,
                        int64_t first_row);

// What a backend is asked for.
struct EmbeddingBackend {
  Target target;
  void (*forward)(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                  int64_t first_row, bool add);
  decltype(&kernels::embedding_backward) backward;
};

namespace cpu {
extern const EmbeddingBackend kEmbeddingPlain;
}

}  // namespace cadre::kernels
