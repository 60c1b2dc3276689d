// What the unit tests share: a device to run on, reproducible inputs, and comparisons.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/context.h"
#include "telemetry/trace.h"
#include "tensor/tensor.h"

namespace cadre::testing {

inline constexpr Device kCpu{.kind = DeviceKind::kCpu, .target = Target::kCpu};
inline constexpr Device kMeta{.kind = DeviceKind::kMeta, .target = Target::kCpu};

// Every rung of the ladder that this machine can run, plain C++ first. Each test of a kernel runs
// on all of them: INSTANTIATE_TEST_SUITE_P(Targets, NameTest, ValuesIn(tested_targets()),
// target_name).
inline std::vector<Target> tested_targets() {
  std::vector<Target> targets;
  for (const Target target : {Target::kCpu, Target::kCpuSimd, Target::kCpuAvx2, Target::kCpuAvx512,
                              Target::kCpuAvx512Bf16, Target::kCpuAmxBf16}) {
    if (runs_on(target, detect_cpu_target())) {
      targets.push_back(target);
    }
  }
  return targets;
}

inline std::string target_name(const ::testing::TestParamInfo<Target>& info) {
  std::string name(name_of(info.param));
  std::erase(name, '-');
  return name;
}

// Element `index` of a tensor's memory, as a float.
inline float load(ConstTensor t, int64_t index) {
  switch (t.dtype) {
    case DType::kF32:
      return t.begin<float>()[index];
    case DType::kBf16:
      return to_float(t.begin<Bf16>()[index]);
    case DType::kF16:
      return to_float(t.begin<F16>()[index]);
    case DType::kI32:
      return static_cast<float>(t.begin<int32_t>()[index]);
  }
  return 0.0f;
}

inline void store(Tensor t, int64_t index, float value) {
  switch (t.dtype) {
    case DType::kF32:
      t.begin<float>()[index] = value;
      break;
    case DType::kBf16:
      t.begin<Bf16>()[index] = from_float<Bf16>(value);
      break;
    case DType::kF16:
      t.begin<F16>()[index] = from_float<F16>(value);
      break;
    case DType::kI32:
      t.begin<int32_t>()[index] = static_cast<int32_t>(value);
      break;
  }
}

// Calls body(offset into memory) for every element of a view, in row-major order.
template <typename Body>
void for_each_offset(ConstTensor t, const Body& body) {
  const int rank = t.shape.rank();
  for (int64_t i = 0; i < t.shape.elements(); ++i) {
    int64_t offset = 0;
    int64_t rest = i;
    for (int d = rank - 1; d >= 0; --d) {
      offset += rest % t.shape[d] * t.strides[d];
      rest /= t.shape[d];
    }
    body(offset);
  }
}

// The elements of any view, in row-major order.
inline std::vector<float> values_of(ConstTensor t) {
  std::vector<float> values;
  for_each_offset(t, [&](int64_t offset) { values.push_back(load(t, offset)); });
  return values;
}

inline void set_values(Tensor t, const std::vector<float>& values) {
  CADRE_CHECK_EQ(static_cast<size_t>(t.shape.elements()), values.size());
  size_t next = 0;
  for_each_offset(t, [&](int64_t offset) { store(t, offset, values[next++]); });
}

struct RigOptions {
  int threads = 1;
  int64_t arena_bytes = int64_t{8} << 20;  // of each arena; on meta it is a pebibyte
};

// All that one rank needs. It owns the tensors it makes and hands out views. On meta they have no
// values, and what would set them does nothing.
struct Rig {
  explicit Rig(const Device& where, const RigOptions& wanted = {})
      : device(where),
        options(wanted),
        source(where.kind == DeviceKind::kMeta
                   ? std::unique_ptr<MemorySource>(std::make_unique<MetaMemory>())
                   : std::make_unique<HeapMemory>()) {}

  // Zeroes.
  Tensor tensor(const Shape& shape, DType dtype = DType::kF32) {
    tensors.push_back(allocate(activations, dtype, shape));
    const Tensor result = tensors.back();
    if (!context.is_meta()) {
      std::fill_n(result.data, result.bytes(), std::byte{0});
    }
    return result;
  }

  Tensor tensor(const Shape& shape, const std::vector<float>& values, DType dtype = DType::kF32) {
    const Tensor result = tensor(shape, dtype);
    if (!context.is_meta()) {
      set_values(result, values);
    }
    return result;
  }

  Tensor ids(const Shape& shape, const std::vector<int32_t>& values) {
    return tensor(shape, std::vector<float>(values.begin(), values.end()), DType::kI32);
  }

  // Standard normal numbers, rounded to `dtype`.
  Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::kF32) {
    const Tensor result = tensor(shape, dtype);
    if (!context.is_meta()) {
      for (int64_t i = 0; i < shape.elements(); i += 4) {
        const auto normals =
            normals_of_block({.seed = seed, .stream = 0}, static_cast<uint64_t>(i / 4));
        for (int64_t j = i; j < std::min(i + 4, shape.elements()); ++j) {
          store(result, j, normals[static_cast<size_t>(j - i)]);
        }
      }
    }
    return result;
  }

  Arena::Options arena(MemoryCategory category) const {
    const bool meta = device.kind == DeviceKind::kMeta;
    return {.category = category, .capacity_bytes = meta ? int64_t{1} << 50 : options.arena_bytes};
  }

  Device device;
  RigOptions options;
  std::unique_ptr<MemorySource> source;
  Trace trace;
  Arena parameters{*source, trace, arena(MemoryCategory::kParameters)};
  Arena gradients{*source, trace, arena(MemoryCategory::kGradients)};
  Arena activations{*source, trace, arena(MemoryCategory::kActivations)};
  Arena workspace{*source, trace, arena(MemoryCategory::kWorkspace)};
  std::vector<OwnedTensor> tensors;  // in `activations`
  ThreadPool threads{options.threads};
  Context context{.device = device, .workspace = workspace, .threads = threads, .trace = trace};
};

// Compares views of any strides and dtypes. The tolerance is relative to the largest expected
// value, which may not be zero: a result that is wrong by a factor cannot pass for small.
inline void expect_near(ConstTensor actual, ConstTensor expected, float tolerance) {
  ASSERT_EQ(actual.shape, expected.shape);
  const std::vector<float> got = values_of(actual);
  const std::vector<float> want = values_of(expected);
  float scale = 0.0f;
  for (const float value : want) {
    scale = std::max(scale, std::abs(value));
  }
  ASSERT_GT(scale, 0.0f);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * scale) << "at element " << i << " of " << actual.shape;
  }
}

inline double dot(ConstTensor a, ConstTensor b) {
  const std::vector<float> left = values_of(a);
  const std::vector<float> right = values_of(b);
  CADRE_CHECK_EQ(left.size(), right.size());
  double sum = 0.0;
  for (size_t i = 0; i < left.size(); ++i) {
    sum += static_cast<double>(left[i]) * static_cast<double>(right[i]);
  }
  return sum;
}

// Compares an f32 gradient with (loss(value + h) - loss(value - h)) / 2h for each of `values`,
// which are f32 too; any strides.
template <typename Loss>
void expect_central_differences(ConstTensor gradient, Tensor values, const Loss& loss,
                                float step = 1e-2f, double tolerance = 2e-3) {
  ASSERT_EQ(gradient.shape, values.shape);
  const std::vector<float> derivatives = values_of(gradient);
  size_t next = 0;
  for_each_offset(values, [&](int64_t offset) {
    const float center = load(values, offset);
    store(values, offset, center + step);
    const double above = loss();
    store(values, offset, center - step);
    const double below = loss();
    store(values, offset, center);
    EXPECT_NEAR(derivatives[next], (above - below) / (2.0 * static_cast<double>(step)), tolerance)
        << "at element " << next;
    ++next;
  });
}

}  // namespace cadre::testing
