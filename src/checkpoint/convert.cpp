#include "checkpoint/convert.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/half.h"

namespace cadre {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

template <typename T>
T load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* address, T value) {
  std::memcpy(address, &value, sizeof(T));
}

template <typename Out, typename In>
Out converted(In value) {
  if constexpr (std::is_same_v<Out, In>) {
    return value;
  } else {
    return from_float<Out>(to_float(value));
  }
}

template <typename Out, typename In>
void convert(const ElementRun<std::byte>& out, const ElementRun<const std::byte>& in,
             int64_t count) {
  constexpr auto kOut = static_cast<int64_t>(sizeof(Out));
  constexpr auto kIn = static_cast<int64_t>(sizeof(In));
  if (out.stride == 1 && in.stride == 1) {  // a loop of its own, which compilers vectorise
    if constexpr (std::is_same_v<Out, In>) {
      std::memcpy(out.data, in.data, static_cast<size_t>(count * kOut));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        store(out.data + i * kOut, converted<Out>(load<In>(in.data + i * kIn)));
      }
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    store(out.data + i * out.stride * kOut,
          converted<Out>(load<In>(in.data + i * in.stride * kIn)));
  }
}

template <typename In>
void convert_to(const ElementRun<std::byte>& out, const ElementRun<const std::byte>& in,
                int64_t count) {
  switch (out.dtype) {
    case DType::kF32:
      return convert<float, In>(out, in, count);
    case DType::kBf16:
      return convert<Bf16, In>(out, in, count);
    case DType::kF16:
      return convert<F16, In>(out, in, count);
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, name_of(in.dtype), " to ", name_of(out.dtype));
}

}  // namespace

bool is_convertible(DType from, DType to) {
  return from == to || (from != DType::kI32 && to != DType::kI32);
}

void convert_run(const ElementRun<std::byte>& out, const ElementRun<const std::byte>& in,
                 int64_t count) {
  switch (in.dtype) {
    case DType::kF32:
      return convert_to<float>(out, in, count);
    case DType::kBf16:
      return convert_to<Bf16>(out, in, count);
    case DType::kF16:
      return convert_to<F16>(out, in, count);
    case DType::kI32:
      CADRE_CHECK(out.dtype == DType::kI32, "i32 to ", name_of(out.dtype));
      return convert<int32_t, int32_t>(out, in, count);
  }
}

PairedRuns::PairedRuns(const Shape& shape, const Shape& left_strides, const Shape& right_strides)
    : done_(shape.elements() == 0) {
  CADRE_CHECK(shape.rank() == left_strides.rank() && shape.rank() == right_strides.rank());
  // Built from the last dimension to the first: the present one is at the front.
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const bool merges = shape_.rank() > 0 && left_strides[d] == left_strides_[0] * shape_[0] &&
                        right_strides[d] == right_strides_[0] * shape_[0];
    if (merges) {
      shape_[0] *= shape[d];
    } else {
      shape_ = shape_.with_inserted(0, shape[d]);
      left_strides_ = left_strides_.with_inserted(0, left_strides[d]);
      right_strides_ = right_strides_.with_inserted(0, right_strides[d]);
    }
  }
  if (shape_.rank() == 0) {
    shape_ = left_strides_ = right_strides_ = {1};
  }
  index_ = all_of(shape_).first;
}

bool PairedRuns::next(Run& run) {
  if (done_) {
    return false;
  }
  const int last = shape_.rank() - 1;
  run = {.count = shape_[last],
         .left_stride = left_strides_[last],
         .right_stride = right_strides_[last]};
  for (int d = 0; d < last; ++d) {
    run.left += index_[d] * left_strides_[d];
    run.right += index_[d] * right_strides_[d];
  }
  int d = last - 1;
  while (d >= 0 && ++index_[d] == shape_[d]) {
    index_[d--] = 0;
  }
  done_ = d < 0;
  return true;
}

}  // namespace cadre
