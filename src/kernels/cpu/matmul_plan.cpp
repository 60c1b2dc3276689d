#include "kernels/cpu/matmul_plan.h"

#include <algorithm>

#include "base/check.h"

namespace cadre::kernels::cpu {
namespace {

constexpr int64_t kPackedBytesMax = int64_t{4} << 20;  // of a block of A, of B, or of staged sums
constexpr int64_t kTileBytesOfB = int64_t{384} << 10;  // stays in L2 while panels of A pass by
constexpr int64_t kTileRows = 64;
constexpr int64_t kTilesMin = 24;            // enough to keep threads busy to the end
constexpr int64_t kUnstagedUnitsMax = 2304;  // a sum kept in registers needs no staging

// The size of equal parts, none above `most`.
int64_t even_part(int64_t whole, int64_t most) {
  return divide_up(whole, divide_up(whole, std::max<int64_t>(most, 1)));
}

Unit unit_of(DType dtype, const PanelKernels& kernels) {
  switch (dtype) {
    case DType::kF32:
      return Unit::kFloat;
    case DType::kBf16:
      return kernels.multiply_pairs != nullptr ? Unit::kPair : Unit::kBf16;
    case DType::kF16:
      return Unit::kF16;
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "matmul of ", name_of(dtype));
  return Unit::kFloat;
}

// The rows of a panel lie in the same few sets of the first-level cache, and push each other out.
bool rows_collide(int64_t row_bytes) {
  return row_bytes % 2048 == 0;
}

bool must_pack_a(const MatmulPlan& plan, ConstTensor a_MK) {
  const bool as_it_is = plan.unit == Unit::kFloat || plan.unit == Unit::kPair;
  return !as_it_is || !plan.a_along_k || a_MK.shape[1] % plan.per_unit != 0 ||
         rows_collide(a_MK.strides[0] * bytes_of(a_MK.dtype));
}

// Smaller tiles where the product is small.
void cut_tiles(MatmulPlan& plan, int64_t panel_rows) {
  const int64_t panels = std::max<int64_t>(kTileRows / panel_rows, 1);
  const int64_t packable = kTilePackedBytesMax / std::max<int64_t>(plan.a_panel_bytes, 1);
  if (plan.tiles_pack_a) {
    plan.tile_panels_b = plan.block_panels_b;
    plan.tile_panels_a = std::min({panels, packable, plan.block_panels_a});
    while (divide_up(plan.block_panels_a, plan.tile_panels_a) < kTilesMin &&
           plan.tile_panels_a > 1) {
      plan.tile_panels_a = divide_up(plan.tile_panels_a, 2);
    }
    return;
  }
  plan.tile_panels_b = std::clamp<int64_t>(kTileBytesOfB / std::max<int64_t>(plan.b_panel_bytes, 1),
                                           1, plan.block_panels_b);
  plan.tile_panels_b = even_part(plan.block_panels_b, plan.tile_panels_b);
  plan.tile_panels_a = std::min(panels, plan.block_panels_a);
  const auto tiles = [&] {
    return divide_up(plan.block_panels_a, plan.tile_panels_a) *
           divide_up(plan.block_panels_b, plan.tile_panels_b);
  };
  while (tiles() < kTilesMin && plan.tile_panels_a > 1) {
    plan.tile_panels_a = divide_up(plan.tile_panels_a, 2);
  }
  while (tiles() < kTilesMin && plan.tile_panels_b > 2) {
    plan.tile_panels_b = divide_up(plan.tile_panels_b, 2);
  }
}

}  // namespace

MatmulPlan plan_matmul(const MatmulTask& task, const PanelKernels& kernels) {
  const auto& [c_MN, a_MK, b_KN, bias_N, store] = task;
  MatmulPlan plan;
  plan.unit = unit_of(a_MK.dtype, kernels);
  plan.per_unit = plan.unit == Unit::kPair ? 2 : 1;
  plan.a_along_k = a_MK.strides[1] == 1;
  plan.b_along_k = b_KN.strides[1] != 1;
  plan.packs_a = must_pack_a(plan, a_MK);
  plan.turns_a = plan.unit == Unit::kPair && kernels.turn_pairs != nullptr && !plan.a_along_k;
  plan.units = divide_up(a_MK.shape[1], plan.per_unit);
  const bool narrow = c_MN.dtype != DType::kF32;
  const bool in_one = plan.units <= (narrow ? kUnstagedUnitsMax : kBlockUnits);
  plan.stages = narrow && !in_one;
  plan.block_units = in_one ? plan.units : even_part(plan.units, kBlockUnits);
  plan.panels_a = divide_up(c_MN.shape[0], kernels.rows);
  plan.panels_b = divide_up(c_MN.shape[1], kernels.columns);

  plan.b_panel_bytes = plan.block_units * kernels.columns * kUnitBytes;
  plan.block_panels_b =
      even_part(plan.panels_b, kPackedBytesMax / std::max<int64_t>(plan.b_panel_bytes, 1));
  // An odd number of cache lines, so that packed rows do not collide.
  plan.a_line_bytes = (align_up(plan.block_units * kUnitBytes) / kAlignment | 1) * kAlignment;
  plan.a_panel_bytes = plan.a_along_k || plan.turns_a
                           ? kernels.rows * plan.a_line_bytes
                           : align_up(kernels.packed_rows * plan.block_units * kUnitBytes);
  plan.staged_row_bytes = plan.block_panels_b * kernels.columns * kUnitBytes;
  plan.tiles_pack_a = plan.packs_a && plan.a_panel_bytes <= kTilePackedBytesMax &&
                      (plan.panels_a >= kTilesMin / 2 || plan.block_panels_b <= 4);
  int64_t most = plan.panels_a;
  if (plan.packs_a && !plan.tiles_pack_a) {
    most = std::min(most, kPackedBytesMax / std::max<int64_t>(plan.a_panel_bytes, 1));
  }
  if (plan.stages) {
    most = std::min(most, kPackedBytesMax / (plan.staged_row_bytes * kernels.rows));
  }
  plan.block_panels_a = even_part(plan.panels_a, most);
  plan.staged_bytes =
      plan.stages ? align_up(plan.block_panels_a * kernels.rows * plan.staged_row_bytes) : 0;
  cut_tiles(plan, kernels.rows);
  return plan;
}

}  // namespace cadre::kernels::cpu
