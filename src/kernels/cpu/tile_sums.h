// Sums over rows in an order that depends on shapes only: every tile of rows keeps a sum of its own
// in the workspace, and these are then added in the order of the tiles.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/rows.h"
#include "tensor/tensor.h"

namespace cadre::kernels::cpu {

inline constexpr int64_t kSummedTilesMax = 64;

// The tiles of a kernel that sums over rows of `width` elements.
inline RowTiles summed_tiles(int64_t rows, int64_t width) {
  return row_tiles(rows, width, kSummedTilesMax);
}

inline int64_t tile_sum_bytes(const RowTiles& tiles, int64_t width) {
  return tiles.count() * width * static_cast<int64_t>(sizeof(float));
}

//   sum[d] += tile_sums[0, d] + tile_sums[1, d] + ...
inline void add_tile_sums(Tensor sum_D, const float* tile_sums, const RowTiles& tiles) {
  const int64_t width = sum_D.shape[0];
  float* const sum = sum_D.begin<float>();
  for (int64_t tile = 0; tile < tiles.count(); ++tile) {
    for (int64_t d = 0; d < width; ++d) {
      sum[d] += tile_sums[tile * width + d];
    }
  }
}

}  // namespace cadre::kernels::cpu
