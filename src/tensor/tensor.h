// Tensor and ConstTensor: typed, strided views, passed by value. OwnedTensor: a packed tensor and
// the arena's block that it lives in.
//
// Transposed and fused storage is a view, so kernels take strides instead of flags.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/dtype.h"
#include "device/arena.h"
#include "tensor/shape.h"

namespace cadre {

template <typename Byte>
struct BasicTensor {
  template <typename T>
  using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  Byte* data = nullptr;  // on meta an address without memory
  DType dtype = DType::kF32;
  Shape shape;
  Shape strides;  // in elements

  bool empty() const { return data == nullptr; }
  bool packed() const { return strides == shape.packed_strides(); }
  int64_t bytes() const { return shape.elements() * bytes_of(dtype); }

  BasicTensor transposed() const {
    CADRE_CHECK_EQ(shape.rank(), 2);
    return {data, dtype, {shape[1], shape[0]}, {strides[1], strides[0]}};
  }

  BasicTensor slice(const Box& box) const {
    BasicTensor part{data, dtype, box.size, strides};
    for (int d = 0; d < shape.rank(); ++d) {
      CADRE_CHECK(0 <= box.first[d] && box.first[d] + box.size[d] <= shape[d], "of ", shape);
      part.data += box.first[d] * strides[d] * bytes_of(dtype);
    }
    return part;
  }

  // Rows [first, first + count) and columns [first, first + count) of a matrix.
  BasicTensor rows(int64_t first, int64_t count) const {
    return slice({.first = {first, 0}, .size = {count, shape[1]}});
  }
  BasicTensor columns(int64_t first, int64_t count) const {
    return slice({.first = {0, first}, .size = {shape[0], count}});
  }

  // Cuts dimension `d` into two, the outer of `outer` entries. The rank grows by one.
  BasicTensor split(int d, int64_t outer) const {
    CADRE_CHECK(shape.rank() == 2 || shape.rank() == 3, "rank ", shape.rank());
    CADRE_CHECK(outer > 0 && shape[d] % outer == 0, shape[d], " over ", outer);
    BasicTensor result{data, dtype, shape, strides};
    result.shape = shape.with_inserted(d, outer);
    result.strides = strides.with_inserted(d, strides[d] * (shape[d] / outer));
    result.shape[d + 1] = shape[d] / outer;
    return result;
  }

  // The same packed memory under another shape of as many elements.
  BasicTensor reshaped(const Shape& other) const {
    CADRE_CHECK(packed() && other.elements() == shape.elements(), shape, " as ", other);
    return {data, dtype, other, other.packed_strides()};
  }

  // All elements of a packed tensor, or one row of a matrix. Not on meta: there is no memory.
  template <typename T>
  std::span<Element<T>> flat() const {
    CADRE_CHECK(packed() && dtype == kDTypeOf<T>, name_of(dtype), " of shape ", shape, ", strides ",
                strides);
    return {reinterpret_cast<Element<T>*>(data), static_cast<size_t>(shape.elements())};
  }
  template <typename T>
  std::span<Element<T>> row(int64_t index) const {
    CADRE_CHECK(shape.rank() == 2 && strides[1] == 1 && index < shape[0], index, " of ", shape);
    return BasicTensor{data + index * strides[0] * bytes_of(dtype), dtype, {shape[1]}, {1}}
        .template flat<T>();
  }

  // The address of the first element, for kernels that walk the strides themselves.
  template <typename T>
  Element<T>* begin() const {
    CADRE_CHECK(dtype == kDTypeOf<T>, name_of(dtype), " is not ", name_of(kDTypeOf<T>));
    return reinterpret_cast<Element<T>*>(data);
  }

  // A writable view is usable wherever a read-only one is asked for.
  operator BasicTensor<const Byte>() const requires(!std::is_const_v<Byte>) {
    return {data, dtype, shape, strides};
  }
};

using Tensor = BasicTensor<std::byte>;
using ConstTensor = BasicTensor<const std::byte>;

class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(Arena::Block block, const Tensor& view) : block_(std::move(block)), view_(view) {}

  bool empty() const { return block_.empty(); }
  const Tensor& view() const { return view_; }
  operator Tensor() const { return view_; }
  operator ConstTensor() const { return view_; }

  // Gives the memory back before the owner ends.
  void reset() { *this = OwnedTensor(); }

 private:
  Arena::Block block_;
  Tensor view_;
};

[[nodiscard]] inline OwnedTensor allocate(Arena& arena, DType dtype, const Shape& shape) {
  Arena::Block block = arena.allocate(shape.elements() * bytes_of(dtype));
  const Tensor view{block.data(), dtype, shape, shape.packed_strides()};
  return {std::move(block), view};
}

}  // namespace cadre
