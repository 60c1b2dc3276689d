// The part of cross entropy that every CPU backend shares.

#pragma once

#include "kernels/cross_entropy.h"

namespace cadre::kernels::cpu {

void cross_entropy_loss(Context& context, Tensor loss_1, Tensor z_1, Tensor count_1, Tensor lse_T,
                        ConstTensor max_T, ConstTensor sum_T, ConstTensor target_logit_T,
                        ConstTensor target_T);

}  // namespace cadre::kernels::cpu
