#include "comm/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace cadre::comm {
namespace {

// Sums of a block stay in the first-level cache; all sources are read once, all targets written
// once.
constexpr int64_t kBlock = 1024;

template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, float>;

template <typename T>
Accumulator<T> widen(T value) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<uint32_t>(value);
  } else {
    return to_float(value);
  }
}

template <typename T>
T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(value);
  } else {
    return from_float<T>(value);
  }
}

template <typename T>
Accumulator<T> larger(Accumulator<T> left, Accumulator<T> right) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(left) > static_cast<int32_t>(right) ? left : right;
  } else {
    // A NaN stays one, on whichever side; std::max keeps or loses it by the order of the ranks.
    return std::isnan(left) || left > right ? left : right;
  }
}

template <typename T>
void add(Accumulator<T>* __restrict__ sums, const T* __restrict__ values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] += widen(values[i]);
  }
}

template <typename T>
void take_larger(Accumulator<T>* __restrict__ sums, const T* __restrict__ values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = larger<T>(sums[i], widen(values[i]));
  }
}

template <typename T>
void reduce_block(Operation operation, std::span<std::byte* const> targets,
                  std::span<const std::byte* const> sources, int64_t first, int64_t count) {
  const auto at = [first](auto* bytes) { return bytes + first * static_cast<int64_t>(sizeof(T)); };
  std::array<Accumulator<T>, kBlock> sums;
  const T* const values = reinterpret_cast<const T*>(at(sources[0]));
  std::transform(values, values + count, sums.begin(), [](T value) { return widen(value); });
  for (const std::byte* source : sources.subspan(1)) {
    const T* const others = reinterpret_cast<const T*>(at(source));
    operation == Operation::kAllReduceMax ? take_larger<T>(sums.data(), others, count)
                                          : add<T>(sums.data(), others, count);
  }
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    for (std::byte* target : targets) {
      std::memcpy(at(target), sums.data(), static_cast<size_t>(count) * sizeof(T));
    }
  } else {
    std::array<T, kBlock> results;
    std::transform(sums.begin(), sums.begin() + count, results.begin(),
                   [](Accumulator<T> value) { return narrow<T>(value); });
    for (std::byte* target : targets) {
      std::memcpy(at(target), results.data(), static_cast<size_t>(count) * sizeof(T));
    }
  }
}

template <typename T>
void reduce_all(Operation operation, std::span<std::byte* const> targets,
                std::span<const std::byte* const> sources, const Part& part) {
  const int64_t end = part.first + part.count;
  for (int64_t first = part.first; first < end; first += kBlock) {
    reduce_block<T>(operation, targets, sources, first, std::min(kBlock, end - first));
  }
}

}  // namespace

void reduce(Operation operation, DType dtype, std::span<std::byte* const> targets,
            std::span<const std::byte* const> sources, const Part& part) {
  CADRE_CHECK(!sources.empty(), "nothing to reduce");
  switch (dtype) {
    case DType::kF32:
      return reduce_all<float>(operation, targets, sources, part);
    case DType::kBf16:
      return reduce_all<Bf16>(operation, targets, sources, part);
    case DType::kF16:
      return reduce_all<F16>(operation, targets, sources, part);
    case DType::kI32:
      return reduce_all<int32_t>(operation, targets, sources, part);
  }
}

}  // namespace cadre::comm
