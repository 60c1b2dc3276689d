// HeldTensor: a tensor and its memory, for the tests of this folder.

#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "checkpoint/saved_tensor.h"
#include "tensor/tensor.h"

namespace cadre {

class HeldTensor {
 public:
  HeldTensor(DType dtype, const Shape& shape)
      : memory_(static_cast<size_t>(shape.elements() * bytes_of(dtype))),
        view_{memory_.data(), dtype, shape, shape.packed_strides()} {}
  HeldTensor(HeldTensor&&) noexcept = default;  // a vector that moves keeps its address

  const Tensor& view() const { return view_; }
  const std::vector<std::byte>& bytes() const { return memory_; }

 private:
  std::vector<std::byte> memory_;
  Tensor view_;
};

// 0.5, 1.5, 2.5, ...: every element is another, and the first is not zero.
inline HeldTensor counting(const Shape& shape) {
  HeldTensor held(DType::kF32, shape);
  const std::span<float> values = held.view().flat<float>();
  std::iota(values.begin(), values.end(), 0.5f);
  return held;
}

// Normal numbers, by name: as the weights of a model.
inline HeldTensor random_tensor(std::string_view name, const Shape& shape) {
  HeldTensor held(DType::kF32, shape);
  const std::span<float> values = held.view().flat<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = normal_at({.seed = 1, .stream = stream_of(name)}, static_cast<int64_t>(i));
  }
  return held;
}

}  // namespace cadre
