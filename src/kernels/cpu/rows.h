// How pointwise kernels see a tensor, and how they cut it into tiles. For kernels/cpu only.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/tensor.h"

namespace cadre::kernels::cpu {

// The rows of a tensor's last dimension, wherever they lie; the others are flattened in row-major
// order. An empty tensor has no rows.
template <typename Byte>
class BasicRows {
 public:
  BasicRows() = default;

  explicit BasicRows(const BasicTensor<Byte>& tensor) : data_(tensor.data) {
    if (tensor.empty()) {
      return;
    }
    const int last = tensor.shape.rank() - 1;
    const int64_t element_bytes = bytes_of(tensor.dtype);
    width_ = last < 0 ? 1 : tensor.shape[last];
    for (int d = last - 1; d >= 0; --d) {
      add_dimension(tensor.shape[d], tensor.strides[d] * element_bytes);
      count_ *= tensor.shape[d];
    }
  }

  // A packed tensor as one long row cut into pieces of `piece` elements; the last may be shorter.
  static BasicRows pieces(const BasicTensor<Byte>& tensor, int64_t piece) {
    BasicRows rows;
    rows.data_ = tensor.data;
    if (!tensor.empty()) {
      const int64_t elements = tensor.shape.elements();
      rows.width_ = piece;
      rows.count_ = (elements + piece - 1) / piece;
      rows.last_width_ = elements - std::max<int64_t>(rows.count_ - 1, 0) * piece;
      rows.add_dimension(rows.count_, piece * bytes_of(tensor.dtype));
    }
    return rows;
  }

  bool empty() const { return data_ == nullptr; }
  int64_t count() const { return empty() ? 0 : count_; }
  int64_t width(int64_t row) const {
    return last_width_ >= 0 && row == count_ - 1 ? last_width_ : width_;
  }

  // Null if the tensor is empty.
  Byte* row(int64_t index) const {
    int64_t offset = 0;
    for (size_t level = 0; level + 1 < levels_; ++level) {
      offset += index % size_[level] * stride_[level];
      index /= size_[level];
    }
    return levels_ == 0 ? data_ : data_ + offset + index * stride_[levels_ - 1];
  }

 private:
  // Joins a dimension with the one inside it where the two are one run of equal steps.
  void add_dimension(int64_t size, int64_t stride_bytes) {
    if (size == 1) {
      return;
    }
    if (levels_ > 0 && stride_bytes == size_[levels_ - 1] * stride_[levels_ - 1]) {
      size_[levels_ - 1] *= size;
      return;
    }
    size_[levels_] = size;
    stride_[levels_] = stride_bytes;
    ++levels_;
  }

  Byte* data_ = nullptr;
  int64_t count_ = 1;
  int64_t width_ = 0;
  int64_t last_width_ = -1;  // -1: as all others
  std::array<int64_t, 3> size_{};
  std::array<int64_t, 3> stride_{};  // bytes
  size_t levels_ = 0;
};

using Rows = BasicRows<std::byte>;
using ConstRows = BasicRows<const std::byte>;

// What one thread takes at a time: a few microseconds of work, and enough tiles that the threads
// end together.
inline constexpr int64_t kTileElements = 16384;

// Rows [first(tile), end(tile)) of every tile: a pure function of shapes.
struct RowTiles {
  int64_t rows = 0;
  int64_t rows_per_tile = 1;

  int64_t count() const { return (rows + rows_per_tile - 1) / rows_per_tile; }
  int64_t first(int64_t tile) const { return tile * rows_per_tile; }
  int64_t end(int64_t tile) const { return std::min(rows, (tile + 1) * rows_per_tile); }
};

// `tiles_max` bounds the memory where every tile keeps a partial sum.
inline RowTiles row_tiles(int64_t rows, int64_t width, int64_t tiles_max) {
  const int64_t by_work = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, width));
  const int64_t by_memory = (rows + tiles_max - 1) / tiles_max;
  return {.rows = rows, .rows_per_tile = std::max(by_work, by_memory)};
}

inline constexpr int64_t kTilesUnbounded = int64_t{1} << 40;

// The rows of tensors of one shape, for kernels that treat every element alike: where all are
// packed, where rows begin does not matter, and pieces of one size are the better tiles.
inline bool all_packed(std::initializer_list<ConstTensor> tensors) {
  return std::ranges::all_of(tensors, [](const ConstTensor& t) { return t.empty() || t.packed(); });
}

template <typename Byte>
BasicRows<Byte> elements_of(const BasicTensor<Byte>& tensor, bool packed) {
  return packed ? BasicRows<Byte>::pieces(tensor, kTileElements) : BasicRows<Byte>(tensor);
}

}  // namespace cadre::kernels::cpu
