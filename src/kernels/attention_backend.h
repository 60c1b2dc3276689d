// What an implementation of attention is. Only attention.cpp and the implementations see it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/context.h"
#include "device/target.h"
#include "kernels/attention.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

// The legend of attention.h as numbers, of the two packed and all the strided operands.
struct AttentionShape {
  int64_t B = 0;
  int64_t Q = 0;
  int64_t K = 0;
  int64_t H = 0;
  int64_t G = 0;
  int64_t D = 0;
  DType dtype = DType::kF32;

  int64_t heads_per_group() const { return H / G; }
};

// Keys [first, end) that one query sees.
struct KeyRange {
  int64_t first = 0;
  int64_t end = 0;
};

struct AttentionForwardTask {
  AttentionShape shape;
  Tensor o_BQHD;
  Tensor lse_BHQ;
  ConstTensor q_BQHD;
  ConstTensor k_BKGD;
  ConstTensor v_BKGD;
  ConstTensor start_BK;
  AttentionOptions options;
};

struct AttentionBackwardTask {
  AttentionShape shape;
  Tensor dq_BQHD;
  Tensor dk_BKGD;
  Tensor dv_BKGD;
  ConstTensor do_BQHD;
  ConstTensor o_BQHD;
  ConstTensor lse_BHQ;
  ConstTensor q_BQHD;
  ConstTensor k_BKGD;
  ConstTensor v_BKGD;
  ConstTensor start_BK;
  AttentionOptions options;
};

struct AttentionBackend {
  Target target = Target::kCpu;
  DType dtype = DType::kF32;
  int64_t (*plan_forward_bytes)(const AttentionShape& shape, int threads) = nullptr;
  int64_t (*plan_backward_bytes)(const AttentionShape& shape, int threads) = nullptr;
  void (*forward)(Context& context, const AttentionForwardTask& task,
                  std::byte* workspace) = nullptr;
  void (*backward)(Context& context, const AttentionBackwardTask& task,
                   std::byte* workspace) = nullptr;
};

// The keys that query `i` of sequence `b` sees; the rule is in attention.h.
template <typename Task>
KeyRange visible_keys(const Task& task, int64_t b, int64_t i) {
  const int64_t position = task.shape.K - task.shape.Q + i;
  int64_t first = 0;
  if (task.options.window > 0) {
    first = std::max(first, position - task.options.window + 1);
  }
  if (!task.start_BK.empty()) {
    const int32_t* const start = task.start_BK.template begin<int32_t>();
    first = std::max<int64_t>(first, start[b * task.start_BK.strides[0] + position]);
  }
  return {.first = first, .end = position + 1};
}

// The block of random words that belongs to keys 0 to 3; the rule is in attention.h.
template <typename Task>
uint64_t dropout_block(const Task& task, int64_t b, int64_t h, int64_t i) {
  const AttentionDropout& dropout = task.options.dropout;
  const int64_t position = task.shape.K - task.shape.Q + i;
  const int64_t row = dropout.first_row + b * task.shape.K + position;
  const int64_t blocks = (task.shape.K + 3) / 4;
  return static_cast<uint64_t>((row * dropout.heads + dropout.first_head + h) * blocks);
}

// What a kept probability is multiplied by; 1 without dropout.
inline float dropout_scale(const AttentionOptions& options) {
  return 1.0f / (1.0f - options.dropout.probability);
}

namespace cpu {
extern const AttentionBackend kAttentionPlainF32;
extern const AttentionBackend kAttentionPlainBf16;
extern const AttentionBackend kAttentionPlainF16;
extern const AttentionBackend kAttentionSimdF32;
extern const AttentionBackend kAttentionSimdBf16;
#if !defined(__x86_64__)
extern const AttentionBackend kAttentionSimdF16;
#endif
#if defined(__x86_64__)
extern const AttentionBackend kAttentionAvx2F32;
extern const AttentionBackend kAttentionAvx2Bf16;
extern const AttentionBackend kAttentionAvx2F16;
extern const AttentionBackend kAttentionAvx512F32;
extern const AttentionBackend kAttentionAvx512Bf16;
extern const AttentionBackend kAttentionAvx512F16;
extern const AttentionBackend kAttentionAvx512NativeBf16;
#endif
}  // namespace cpu

}  // namespace cadre::kernels
