// StoredType: the element types of safetensors files, by the names that stand in their headers.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace cadre {

enum class StoredType {
  kBool,
  kU8,
  kI8,
  kF8E4m3,
  kF8E5m2,
  kU16,
  kI16,
  kF16,
  kBf16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};
inline constexpr size_t kStoredTypes = 15;

struct StoredTypeFacts {
  std::string_view name;
  int64_t bytes = 0;
};

constexpr StoredTypeFacts facts_of(StoredType type) {
  constexpr std::array<StoredTypeFacts, kStoredTypes> kFacts = {{{"BOOL", 1},
                                                                 {"U8", 1},
                                                                 {"I8", 1},
                                                                 {"F8_E4M3", 1},
                                                                 {"F8_E5M2", 1},
                                                                 {"U16", 2},
                                                                 {"I16", 2},
                                                                 {"F16", 2},
                                                                 {"BF16", 2},
                                                                 {"U32", 4},
                                                                 {"I32", 4},
                                                                 {"F32", 4},
                                                                 {"U64", 8},
                                                                 {"I64", 8},
                                                                 {"F64", 8}}};
  return kFacts[static_cast<size_t>(type)];
}

constexpr std::string_view name_of(StoredType type) {
  return facts_of(type).name;
}
constexpr int64_t bytes_of(StoredType type) {
  return facts_of(type).bytes;
}

constexpr std::optional<StoredType> stored_type_named(std::string_view name) {
  for (size_t i = 0; i < kStoredTypes; ++i) {
    if (facts_of(static_cast<StoredType>(i)).name == name) {
      return static_cast<StoredType>(i);
    }
  }
  return std::nullopt;
}

constexpr StoredType stored_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return StoredType::kF32;
    case DType::kBf16:
      return StoredType::kBf16;
    case DType::kF16:
      return StoredType::kF16;
    case DType::kI32:
      return StoredType::kI32;
  }
  return StoredType::kF32;
}

// nullopt: no tensor of ours can hold it; such a tensor can be named and skipped, not read.
constexpr std::optional<DType> dtype_of(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return DType::kF32;
    case StoredType::kBf16:
      return DType::kBf16;
    case StoredType::kF16:
      return DType::kF16;
    case StoredType::kI32:
      return DType::kI32;
    default:
      return std::nullopt;
  }
}

}  // namespace cadre
