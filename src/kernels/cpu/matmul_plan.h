// How one matrix product is cut into blocks, panels and tiles: a pure function of shapes, strides,
// dtypes and the instruction set, so that a rehearsal needs the same workspace as the run.
//
// A block of K (of all of A's rows, or as many as workspace allows) times a block of B's columns is
// done at a time. A tile is what one thread computes of it before it takes the next.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul_panels.h"
#include "kernels/matmul.h"

namespace cadre::kernels::cpu {

// Rows of A that a tile packs for itself: of each thread.
inline constexpr int64_t kTilePackedBytesMax = int64_t{528} << 10;

inline constexpr int64_t kBlockUnits = 768;  // of K: a panel of B is 96 KiB

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct MatmulPlan {
  Unit unit = Unit::kFloat;
  int64_t per_unit = 1;    // elements of K in a unit
  bool a_along_k = false;  // lines of A in memory run along K
  bool b_along_k = false;  // lines of B in memory run along K
  bool packs_a = false;
  bool turns_a = false;       // packs lines across K as lines along K
  bool tiles_pack_a = false;  // by itself: a tile is as wide as the block of B
  bool stages = false;        // sums wait in the workspace between blocks of K: c is too narrow
  int64_t units = 0;          // of all of K
  int64_t block_units = 0;
  int64_t panels_a = 0;
  int64_t panels_b = 0;
  int64_t block_panels_a = 0;
  int64_t block_panels_b = 0;
  int64_t tile_panels_a = 0;
  int64_t tile_panels_b = 0;
  int64_t a_line_bytes = 0;  // of packed lines along K
  int64_t a_panel_bytes = 0;
  int64_t b_panel_bytes = 0;
  int64_t staged_row_bytes = 0;
  int64_t staged_bytes = 0;

  // Of the block, or of the tile that a thread is at.
  int64_t packed_a_bytes() const {
    const int64_t panels = tiles_pack_a ? tile_panels_a : block_panels_a;
    return packs_a ? align_up(panels * a_panel_bytes) : 0;
  }
  int64_t packed_b_bytes() const { return align_up(block_panels_b * b_panel_bytes); }
  int64_t workspace_bytes(int threads) const {
    return (tiles_pack_a ? threads : 1) * packed_a_bytes() + packed_b_bytes() + staged_bytes;
  }
};

// For a product that has elements.
MatmulPlan plan_matmul(const MatmulTask& task, const PanelKernels& kernels);

}  // namespace cadre::kernels::cpu
