// Shape and Box: how large a tensor is, and which part of it is meant.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "base/check.h"

namespace cadre {

// One number per dimension, up to four: sizes, strides, or a corner.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> numbers) : rank_(static_cast<int>(numbers.size())) {
    CADRE_CHECK(numbers.size() <= numbers_.size(), numbers.size(), " dimensions");
    std::ranges::copy(numbers, numbers_.begin());
  }

  int rank() const { return rank_; }
  int64_t operator[](int dimension) const { return numbers_[index(dimension)]; }
  int64_t& operator[](int dimension) { return numbers_[index(dimension)]; }

  int64_t elements() const {
    int64_t product = 1;
    for (int d = 0; d < rank_; ++d) {
      product *= (*this)[d];
    }
    return product;
  }

  // Row-major: the last dimension is next to itself in memory.
  Shape packed_strides() const {
    Shape strides = *this;
    int64_t stride = 1;
    for (int d = rank_ - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= (*this)[d];
    }
    return strides;
  }

  // A copy with `number` put before dimension `d`.
  Shape with_inserted(int d, int64_t number) const {
    CADRE_CHECK(0 <= d && d <= rank_ && rank_ < 4, "dimension ", d, " of ", rank_);
    Shape result = *this;
    ++result.rank_;
    for (int i = rank_; i > d; --i) {
      result[i] = (*this)[i - 1];
    }
    result[d] = number;
    return result;
  }

  bool operator==(const Shape&) const = default;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    out << '[';
    for (int d = 0; d < shape.rank(); ++d) {
      out << (d == 0 ? "" : ", ") << shape[d];
    }
    return out << ']';
  }

 private:
  size_t index(int dimension) const {
    CADRE_CHECK(0 <= dimension && dimension < rank_, "dimension ", dimension, " of ", rank_);
    return static_cast<size_t>(dimension);
  }

  std::array<int64_t, 4> numbers_{};
  int rank_ = 0;
};

// Elements [first, first + size) of every dimension. What a rank holds of a tensor is a Box.
struct Box {
  Shape first;
  Shape size;

  bool operator==(const Box&) const = default;
};

inline Box all_of(const Shape& shape) {
  Box box{.first = shape, .size = shape};
  for (int d = 0; d < shape.rank(); ++d) {
    box.first[d] = 0;
  }
  return box;
}

}  // namespace cadre
