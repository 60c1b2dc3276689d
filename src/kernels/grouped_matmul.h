// Matrix products by group: rows that lie group by group, each group with a matrix of its own. What
// the experts of a mixture compute.
//
// Legend: E groups, R rows, M rows of a group's matrix, N columns, K the width summed over. Group e
// has rows [offset[e], offset[e + 1]); offset[0] is 0, and rows from offset[E] on belong to nobody.
// Offsets are i32 and stay on the device: what is booked, and the workspace, depend on shapes only.
// A group without rows is not visited.
//
// Operands, dtypes, and the order of sums are those of kernels/matmul.h; an element has the bits
// that matmul() of its group would give it.

#pragma once

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

//   c[r] = a[r] b[e]      for the rows of group e; rows of nobody become 0
void grouped_matmul(Context& context, Tensor c_RN, ConstTensor a_RK, ConstTensor b_EKN,
                    ConstTensor offset_E1);

//   c[e] += sum over the rows of group e of a[r]^T b[r]      c is f32
void grouped_matmul_add(Context& context, Tensor c_EMN, ConstTensor a_RM, ConstTensor b_RN,
                        ConstTensor offset_E1);

// What a backend is asked for. It multiplies with the matmul backend of the same target.
struct GroupedMatmulTask {
  Tensor c;
  ConstTensor a;
  ConstTensor b;
  ConstTensor offset_E1;
};

struct MatmulBackend;

namespace cpu {
void grouped_matmul(Context& context, const GroupedMatmulTask& task, const MatmulBackend& matmul,
                    std::byte* workspace);
void grouped_matmul_add(Context& context, const GroupedMatmulTask& task,
                        const MatmulBackend& matmul, std::byte* workspace);
}  // namespace cpu

}  // namespace cadre::kernels
