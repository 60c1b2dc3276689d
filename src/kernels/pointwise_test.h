// What the tests of pointwise kernels share. For *_test files only.

#pragma once

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "testing/test_support.h"

namespace cadre::kernels {

inline constexpr std::array kActivationDTypes = {DType::kF32, DType::kBf16, DType::kF16};

// Half a unit in the last place (of 8 and 11 bits) is at most this much of a value.
inline float rounding_of(DType dtype) {
  return dtype == DType::kBf16 ? 0x1.1p-8f : dtype == DType::kF16 ? 0x1.1p-11f : 0x1p-22f;
}

// `value` as `dtype` stores it.
inline float rounded(float value, DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return to_float(from_float<Bf16>(value));
    case DType::kF16:
      return to_float(from_float<F16>(value));
    default:
      return value;
  }
}

inline Tensor copy_of(testing::Rig& rig, ConstTensor x) {
  return rig.tensor(x.shape, testing::values_of(x), x.dtype);
}

inline Tensor widened(testing::Rig& rig, ConstTensor x) {
  return rig.tensor(x.shape, testing::values_of(x));
}

inline std::vector<float> rounded_sums(ConstTensor a, ConstTensor b) {
  std::vector<float> sums = testing::values_of(a);
  const std::vector<float> others = testing::values_of(b);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = rounded(sums[i] + others[i], a.dtype);
  }
  return sums;
}

inline void subtract(Tensor from, const std::vector<float>& values) {
  std::vector<float> difference = testing::values_of(from);
  for (size_t i = 0; i < difference.size(); ++i) {
    difference[i] -= values[i];
  }
  testing::set_values(from, difference);
}

inline std::vector<float> joined(std::initializer_list<ConstTensor> tensors) {
  std::vector<float> all;
  for (const ConstTensor& tensor : tensors) {
    const std::vector<float> values = testing::values_of(tensor);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Runs `ops(rig)` on the CPU and on meta: ops, and memory by category, must be equal.
template <typename Ops>
void expect_same_booking(Target target, const Ops& ops) {
  std::vector<Segment> segments;
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kMeta}) {
    testing::Rig rig({.kind = kind, .target = target});
    ops(rig);
    segments.push_back(rig.trace.cut());
  }
  EXPECT_FALSE(segments[0].ops.empty());
  EXPECT_EQ(segments[0], segments[1]);
}

}  // namespace cadre::kernels
