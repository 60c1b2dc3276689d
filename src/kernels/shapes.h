// What the contracts of pointwise kernels check of their operands. For src/kernels only.

#pragma once

#include <initializer_list>
#include <string_view>

#include "base/check.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

// The last dimension of a tensor is packed, whatever the others are.
inline void check_packed_rows(std::string_view op, ConstTensor x) {
  const int rank = x.shape.rank();
  CADRE_CHECK(rank == 0 || x.strides[rank - 1] == 1 || x.shape[rank - 1] == 1, op,
              ": an operand of shape ", x.shape, " has strides ", x.strides,
              ", the last dimension must be packed");
}

// All have x's shape and dtype and packed rows; those that are empty are passed over.
inline void check_rows_alike(std::string_view op, ConstTensor x,
                             std::initializer_list<ConstTensor> others) {
  CADRE_CHECK(x.dtype != DType::kI32, op, ": no arithmetic on i32");
  check_packed_rows(op, x);
  for (const ConstTensor& other : others) {
    if (!other.empty()) {
      CADRE_CHECK(other.shape == x.shape && other.dtype == x.dtype, op, ": ", name_of(other.dtype),
                  " of shape ", other.shape, " beside ", name_of(x.dtype), " of shape ", x.shape);
      check_packed_rows(op, other);
    }
  }
}

inline void check_packed_f32(std::string_view op, ConstTensor values, const Shape& shape) {
  CADRE_CHECK(values.shape == shape && values.dtype == DType::kF32 && values.packed(), op, ": ",
              name_of(values.dtype), " of shape ", values.shape, ", strides ", values.strides,
              "; wanted packed f32 of shape ", shape);
}

// One f32 for every row of x: packed, of x's shape without its last dimension.
inline void check_row_values(std::string_view op, ConstTensor x, ConstTensor values) {
  Shape rows;
  for (int d = 0; d + 1 < x.shape.rank(); ++d) {
    rows = rows.with_inserted(d, x.shape[d]);
  }
  check_packed_f32(op, values, rows);
}

// One f32 for every column of x.
inline void check_column_values(std::string_view op, ConstTensor x, ConstTensor values) {
  check_packed_f32(op, values, Shape{x.shape[x.shape.rank() - 1]});
}

}  // namespace cadre::kernels
