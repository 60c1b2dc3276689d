// The sums over rows of LayerNorm's backward pass: where every tile keeps its own.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"
#include "kernels/layer_norm.h"

namespace cadre::kernels::cpu {

struct LayerNormSums {
  RowTiles tiles;
  int64_t width = 0;
  float* dweight = nullptr;  // [tiles, width]; null: frozen
  float* dbias = nullptr;

  LayerNormSums(const LayerNormBackwardTask& task, float* workspace) {
    const ConstRows rows(task.x_TD);
    width = rows.width(0);
    tiles = summed_tiles(rows.count(), width);
    if (!task.dweight_D.empty()) {
      dweight = workspace;
      workspace += tiles.count() * width;
    }
    if (!task.dbias_D.empty()) {
      dbias = workspace;
    }
  }

  static int64_t plan_bytes(const LayerNormBackwardTask& task) {
    const ConstRows rows(task.x_TD);
    const RowTiles tiles = summed_tiles(rows.count(), rows.width(0));
    const int64_t sums = (task.dweight_D.empty() ? 0 : 1) + (task.dbias_D.empty() ? 0 : 1);
    return sums * tile_sum_bytes(tiles, rows.width(0));
  }

  float* dweight_of(int64_t tile) const {
    return dweight == nullptr ? nullptr : dweight + tile * width;
  }
  float* dbias_of(int64_t tile) const { return dbias == nullptr ? nullptr : dbias + tile * width; }

  void clear(int64_t tile) const {
    for (float* const sums : {dweight_of(tile), dbias_of(tile)}) {
      if (sums != nullptr) {
        std::fill_n(sums, width, 0.0f);
      }
    }
  }

  void add_to(const LayerNormBackwardTask& task) const {
    if (dweight != nullptr) {
      add_tile_sums(task.dweight_D, dweight, tiles);
    }
    if (dbias != nullptr) {
      add_tile_sums(task.dbias_D, dbias, tiles);
    }
  }
};

}  // namespace cadre::kernels::cpu
