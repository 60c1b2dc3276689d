// Copying elements between layouts and dtypes, run by run.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "tensor/shape.h"

namespace cadre {

// Where elements lie; no alignment is asked for.
template <typename Byte>
struct ElementRun {
  Byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 1;  // in elements
};

// Copies `count` elements. Floats become floats of another width through float, rounded to nearest,
// ties to even; elements of the same dtype keep every bit; kI32 goes to kI32 only.
void convert_run(const ElementRun<std::byte>& out, const ElementRun<const std::byte>& in,
                 int64_t count);

bool is_convertible(DType from, DType to);

// Walks two arrays of one shape in row-major order, in the longest runs that have one stride in
// each. Offsets and strides count elements.
class PairedRuns {
 public:
  struct Run {
    int64_t left = 0;  // offsets of the first element
    int64_t right = 0;
    int64_t count = 0;
    int64_t left_stride = 1;
    int64_t right_stride = 1;
  };

  PairedRuns(const Shape& shape, const Shape& left_strides, const Shape& right_strides);

  // Fills `run` with the next one; false at the end.
  bool next(Run& run);

 private:
  Shape shape_;  // dimensions that lie next to each other in both arrays are merged
  Shape left_strides_;
  Shape right_strides_;
  Shape index_;  // of the next run; of all dimensions but the last
  bool done_ = false;
};

}  // namespace cadre
