// Cross entropy of the next token, from logits that may be a slice of the vocabulary.
//
// Three steps, so that ranks which hold slices can agree between them: statistics of each row of
// this slice; loss from the statistics of the whole row; gradient. Statistics are f32.
//
// Legend: T tokens, V columns (here: [first_column, first_column + V) of the whole vocabulary).
// Targets are i32; kIgnoredTarget has no loss and no gradient.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

inline constexpr int32_t kIgnoredTarget = -100;

struct CrossEntropyOptions {
  int64_t first_column = 0;
  float gradient_scale = 1.0f;  // of every token's gradient: the loss scale
  float z_loss = 0.0f;          // coefficient of the square of log sum exp, per token
};

//   max[t]    = max over columns of logits
//   sum[t]    = sum over columns of exp(logits - max)
//   target[t] = logits[t, target column] if it lies in this slice, else 0
void cross_entropy_statistics(Context& context, Tensor max_T, Tensor sum_T, Tensor target_logit_T,
                              ConstTensor logits_TV, ConstTensor target_T,
                              const CrossEntropyOptions& options);

//   lse[t]   = max + log(sum)
//   loss_1  += sum over targets that count of (lse - target_logit)
//   z_1     += sum over targets that count of lse^2                  (without its coefficient)
//   count_1 += number of targets that count                          (f32: exact up to 2^24)
//
// T is summed in ascending order in double.
void cross_entropy_loss(Context& context, Tensor loss_1, Tensor z_1, Tensor count_1, Tensor lse_T,
                        ConstTensor max_T, ConstTensor sum_T, ConstTensor target_logit_T,
                        ConstTensor target_T);

//   p = exp(logits - lse)
//   dlogits = gradient_scale * (p - [column = target] + 2 z_loss lse p)      0 where ignored
//
// logits are f32; dlogits is f32, bf16 or f16, and may be the memory of logits (each row of dlogits
// then begins where the row of logits does: the caller passes a view with that stride).
void cross_entropy_backward(Context& context, Tensor dlogits_TV, ConstTensor logits_TV,
                            ConstTensor lse_T, ConstTensor target_T,
                            const CrossEntropyOptions& options);

struct CrossEntropyBackend {
  Target target;
  decltype(&kernels::cross_entropy_statistics) statistics;
  decltype(&kernels::cross_entropy_loss) loss;
  decltype(&kernels::cross_entropy_backward) backward;
};

namespace cpu {
extern const CrossEntropyBackend kCrossEntropyPlain;
extern const CrossEntropyBackend kCrossEntropySimd;  // NEON
extern const CrossEntropyBackend kCrossEntropyAvx2;  // these two on x86-64
extern const CrossEntropyBackend kCrossEntropyAvx512;
}  // namespace cpu

}  // namespace cadre::kernels
