// What the plain C++ kernels share: elements by dtype, through bytes, so that a row may be written
// over another dtype's row.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"

namespace cadre::kernels::cpu {

template <typename Element>
float load(const std::byte* row, int64_t index) {
  Element element;
  std::memcpy(&element, row + index * static_cast<int64_t>(sizeof(Element)), sizeof(Element));
  return to_float(element);
}

template <typename Element>
void store(std::byte* row, int64_t index, float value) {
  const Element element = from_float<Element>(value);
  std::memcpy(row + index * static_cast<int64_t>(sizeof(Element)), &element, sizeof(Element));
}

// Calls body(Element{}) with the C++ type of `dtype`.
template <typename Body>
void with_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kBf16:
      return body(Bf16{});
    case DType::kF16:
      return body(F16{});
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "no arithmetic on ", name_of(dtype));
}

}  // namespace cadre::kernels::cpu
