// DType: what one element of a tensor is. Kernels are chosen by it; bytes are counted with it.

#pragma once

#include <cstdint>
#include <string_view>

#include "base/half.h"

namespace cadre {

enum class DType { kF32, kBf16, kF16, kI32 };

constexpr int64_t bytes_of(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : 2;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI32:
      return "i32";
  }
  return "unknown dtype";
}

// The DType of a C++ type; only types that a CPU kernel may dereference have one.
template <typename Element>
inline constexpr DType kDTypeOf = Element::no_dtype;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBf16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;

}  // namespace cadre
