// Tokens in the order of the experts that they are sent to, and back.
//
// Legend: T tokens, K experts of each token, slot t * K + k: the k-th of token t; E experts, R rows
// in the order of experts, D or F width. A row is the copy of a token that one expert sees. Indices
// are i32. Where R < T * K, or an expert's capacity is reached, slots are left out: their row is
// -1. Rows that nobody has have slot -1.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

struct ExpertRows {
  Tensor slot_R;     // of each row
  Tensor row_TK;     // of each slot
  Tensor offset_E1;  // rows [offset[e], offset[e + 1]) are those of expert e
};

struct ExpertRowsOptions {
  int64_t sequences = 1;  // that the tokens are of, with as many tokens each
  int64_t capacity = 0;   // the most rows of one sequence that an expert takes; 0: any number
};

// Rows by expert, and for one expert in the order of slots. Where there is a capacity, the first
// slots of a sequence have it.
void expert_rows(Context& context, const ExpertRows& rows, ConstTensor expert_TK,
                 const ExpertRowsOptions& options);

//   y[r] = x[slot[r] / K]      0 where the row is nobody's; f32, bf16 or f16
void gather_rows(Context& context, Tensor y_RD, ConstTensor x_TD, ConstTensor slot_R,
                 int64_t slots_per_token);

//   x[t] = sum over k of y[row[t, k]]      in the order of k, in f32; slots left out add nothing
//
// Each of the two is the other's backward pass.
void sum_rows(Context& context, Tensor x_TD, ConstTensor y_RD, ConstTensor row_TK);

//   y[row] = weight[slot] x[row]           y may be x; rows of nobody are passed over
void weigh_rows(Context& context, Tensor y_RF, ConstTensor x_RF, ConstTensor weight_TK,
                ConstTensor row_TK);

//   dx[row]       = weight[slot] dy[row]   dx may be dy; rows of nobody are passed over
//   dweight[slot] = dy[row] . x[row]       0 for slots left out
void weigh_rows_backward(Context& context, Tensor dx_RF, Tensor dweight_TK, ConstTensor dy_RF,
                         ConstTensor x_RF, ConstTensor weight_TK, ConstTensor row_TK);

struct ExpertRowsBackend {
  Target target;
  decltype(&kernels::expert_rows) expert_rows;
  decltype(&kernels::gather_rows) gather_rows;
  decltype(&kernels::sum_rows) sum_rows;
  decltype(&kernels::weigh_rows) weigh_rows;
  decltype(&kernels::weigh_rows_backward) weigh_rows_backward;
};

namespace cpu {
extern const ExpertRowsBackend kExpertRowsPlain;
}

}  // namespace cadre::kernels
