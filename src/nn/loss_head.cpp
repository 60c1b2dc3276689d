#include "nn/loss_head.h"

#include <algorithm>

#include "kernels/cross_entropy.h"
#include "kernels/matmul.h"

namespace cadre::nn {
namespace {

// Large enough that the weight's gradient is not read and written too often, small beside a layer.
constexpr int64_t kChunkBytes = int64_t{64} << 20;
constexpr int64_t kTokensMultiple = 64;

Tensor part(const Tensor& whole_T, int64_t first, int64_t count) {
  return whole_T.slice({.first = {first}, .size = {count}});
}

ConstTensor part(const ConstTensor& whole_T, int64_t first, int64_t count) {
  return whole_T.slice({.first = {first}, .size = {count}});
}

// The logits' memory again, for gradients in the compute dtype: every row begins where it did.
Tensor in_place_as(const Tensor& logits_CV, DType dtype) {
  Tensor result = logits_CV;
  result.dtype = dtype;
  result.strides[0] = logits_CV.strides[0] * bytes_of(logits_CV.dtype) / bytes_of(dtype);
  return result;
}

}  // namespace

int64_t LossHead::chunk_tokens(ConstTensor x_TD) const {
  const int64_t fitting = kChunkBytes / (rows() * bytes_of(DType::kF32));
  const int64_t rounded = std::max(kTokensMultiple, fitting / kTokensMultiple * kTokensMultiple);
  return std::min(rounded, x_TD.shape[0]);
}

void LossHead::logits(Context& context, Tensor logits_TV, ConstTensor x_TD) const {
  kernels::matmul(context, logits_TV, x_TD, weight_.value().transposed(), {});
}

void LossHead::chunk_loss(Context& context, Arena& activations, const LossSums& sums,
                          Tensor logits_CV, Tensor lse_C, ConstTensor x_CD, ConstTensor target_C,
                          const Agree& agree) const {
  const Shape rows_C = {x_CD.shape[0]};
  const OwnedTensor max_C = allocate(activations, DType::kF32, rows_C);
  const OwnedTensor sum_C = allocate(activations, DType::kF32, rows_C);
  const OwnedTensor target_logit_C = allocate(activations, DType::kF32, rows_C);
  logits(context, logits_CV, x_CD);
  kernels::cross_entropy_statistics(context, max_C, sum_C, target_logit_C, logits_CV, target_C,
                                    {.first_column = first_row_});
  agree(context, max_C, sum_C, target_logit_C);
  kernels::cross_entropy_loss(context, sums.loss_1, sums.z_1, sums.count_1, lse_C, max_C, sum_C,
                              target_logit_C, target_C);
}

void LossHead::forward(Context& context, Arena& activations, const LossSums& sums, ConstTensor x_TD,
                       ConstTensor target_T, const Agree& agree) const {
  const int64_t chunk = chunk_tokens(x_TD);
  const OwnedTensor logits_CV = allocate(activations, DType::kF32, {chunk, rows()});
  const OwnedTensor lse_C = allocate(activations, DType::kF32, {chunk});
  for (int64_t first = 0; first < x_TD.shape[0]; first += chunk) {
    const int64_t count = std::min(chunk, x_TD.shape[0] - first);
    chunk_loss(context, activations, sums, logits_CV.view().rows(0, count),
               part(lse_C.view(), 0, count), x_TD.rows(first, count), part(target_T, first, count),
               agree);
  }
}

void LossHead::forward_backward(Context& context, Arena& activations, const LossSums& sums,
                                Tensor dx_TD, ConstTensor x_TD, ConstTensor target_T,
                                const Options& options, const Agree& agree) const {
  const int64_t chunk = chunk_tokens(x_TD);
  const OwnedTensor all_logits_CV = allocate(activations, DType::kF32, {chunk, rows()});
  const OwnedTensor all_lse_C = allocate(activations, DType::kF32, {chunk});
  for (int64_t first = 0; first < x_TD.shape[0]; first += chunk) {
    const int64_t count = std::min(chunk, x_TD.shape[0] - first);
    const Tensor logits_CV = all_logits_CV.view().rows(0, count);
    const Tensor lse_C = part(all_lse_C.view(), 0, count);
    const ConstTensor x_CD = x_TD.rows(first, count);
    const ConstTensor target_C = part(target_T, first, count);
    chunk_loss(context, activations, sums, logits_CV, lse_C, x_CD, target_C, agree);
    const Tensor dlogits_CV = in_place_as(logits_CV, x_TD.dtype);
    kernels::cross_entropy_backward(context, dlogits_CV, logits_CV, lse_C, target_C,
                                    {.first_column = first_row_,
                                     .gradient_scale = options.gradient_scale,
                                     .z_loss = options.z_loss});
    kernels::matmul(context, dx_TD.rows(first, count), dlogits_CV, weight_.value(), {});
    if (!weight_.frozen()) {
      kernels::matmul_add(context, weight_.whole_gradient, ConstTensor(dlogits_CV).transposed(),
                          x_CD);
    }
  }
}

}  // namespace cadre::nn
