#include <algorithm>
#include <cmath>

#include "kernels/combine.h"

namespace cadre::kernels::cpu {
namespace {

constexpr int64_t kTile = 16384;  // elements that one thread takes at a time

template <typename Body>
void for_each_tile(Context& context, int64_t elements, const Body& body) {
  context.threads.run((elements + kTile - 1) / kTile, [&](int64_t tile, int) {
    body(tile * kTile, std::min(elements, (tile + 1) * kTile));
  });
}

void combine(Context& context, Tensor y, ConstTensor x, float alpha, float beta) {
  float* const to = y.begin<float>();
  const float* const from = x.begin<float>();
  for_each_tile(context, y.shape.elements(), [=](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      to[i] = alpha * from[i] + beta * to[i];
    }
  });
}

void scale_to_unit_norm(Context& context, Tensor y, ConstTensor x, ConstTensor squared_1) {
  float* const to = y.begin<float>();
  const float* const from = x.begin<float>();
  const float factor = 1.0f / (std::sqrt(*squared_1.begin<float>()) + 1e-7f);
  for_each_tile(context, y.shape.elements(), [=](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      to[i] = factor * from[i];
    }
  });
}

}  // namespace

const CombineBackend kCombinePlain{
    .target = Target::kCpu, .combine = combine, .scale_to_unit_norm = scale_to_unit_norm};

}  // namespace cadre::kernels::cpu
