// Matrix product.
//
// Legend: M rows and N columns of the product, K the width summed over. Operands may be transposed
// or sliced views (one of the two strides of each is 1); c is written row by row, so its columns
// are adjacent. c aliases neither operand. Any of M, N, K may be 0; a sum over nothing is 0.
//
// a and b are f32, bf16 or f16, both the same; c is f32 or of their dtype. Products are summed in
// fp32, and c is rounded once, in an order that depends on shapes, dtypes and the target only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

struct MatmulOptions {
  ConstTensor bias_N = {};  // added to every row if it is not empty; f32 or of a's dtype; packed
};

//   c = a b + bias
void matmul(Context& context, Tensor c_MN, ConstTensor a_MK, ConstTensor b_KN,
            const MatmulOptions& options);

//   c += a b
void matmul_add(Context& context, Tensor c_MN, ConstTensor a_MK, ConstTensor b_KN);

// What a backend is asked for.
enum class Store { kOverwrite, kAdd };

struct MatmulTask {
  Tensor c_MN;
  ConstTensor a_MK;
  ConstTensor b_KN;
  ConstTensor bias_N;  // may be empty
  Store store = Store::kOverwrite;
};

struct MatmulBackend {
  Target target;
  bool only_bf16 = false;
  int64_t (*plan_workspace_bytes)(const MatmulTask& task, int threads);
  // Enough for every task like this one that has fewer rows, or a smaller K (c is f32).
  int64_t (*plan_any_rows_bytes)(const MatmulTask& task, int threads);
  int64_t (*plan_any_depth_bytes)(const MatmulTask& task, int threads);
  void (*run)(Context& context, const MatmulTask& task, std::byte* workspace);

  bool takes(DType operands) const { return !only_bf16 || operands == DType::kBf16; }
};

// For kernels that multiply parts of their operands: checks the task as matmul() does.
const MatmulBackend& checked_matmul_backend(std::string_view op, const Context& context,
                                            const MatmulTask& task);

namespace cpu {
extern const MatmulBackend kMatmulPlain;
extern const MatmulBackend kMatmulSimd;
#if defined(__x86_64__)
extern const MatmulBackend kMatmulAvx2;
extern const MatmulBackend kMatmulAvx512;
extern const MatmulBackend kMatmulAvx512Bf16;
extern const MatmulBackend kMatmulAmxBf16;
#endif
}  // namespace cpu

}  // namespace cadre::kernels
