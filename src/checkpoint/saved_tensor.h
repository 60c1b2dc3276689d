// SavedTensor: one piece of a tensor, as who saves it sees it. WantedTensor: as who loads it does.
//
// A tensor has a name and a whole shape that do not depend on the layout of the run: those of
// Hugging Face for weights. What a process holds of it is a box of global indices.

#pragma once

#include <string>
#include <utility>

#include "base/dtype.h"
#include "tensor/tensor.h"

namespace cadre {

struct SavedTensor {
  std::string name = {};
  DType dtype =
      DType::kF32;  // in the file; values are converted from data.dtype (kF32, kBf16, kF16)
  Shape whole = {};
  Box box = {};  // what of `whole` this piece is
  ConstTensor data =
      {};  // of shape box.size, with any strides; not empty unless it has no elements
};

inline SavedTensor whole_tensor(std::string name, DType dtype, const ConstTensor& data) {
  return {.name = std::move(name),
          .dtype = dtype,
          .whole = data.shape,
          .box = all_of(data.shape),
          .data = data};
}

struct WantedTensor {
  std::string name = {};
  Shape whole = {};
  Box box = {};  // what of `whole` is read
  Tensor destination =
      {};  // of shape box.size, with any strides; values are converted to its dtype
};

inline WantedTensor wanted_whole(std::string name, const Tensor& destination) {
  return {.name = std::move(name),
          .whole = destination.shape,
          .box = all_of(destination.shape),
          .destination = destination};
}

}  // namespace cadre
