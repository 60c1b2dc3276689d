#include "kernels/cpu/elementwise_shared.h"

#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"

namespace cadre::kernels::cpu {

void clear_rows(Context& context, Tensor y) {
  const Rows rows = elements_of(y, y.packed());
  const RowTiles tiles = row_tiles(rows.count(), rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      std::fill_n(rows.row(t), rows.width(t) * bytes_of(y.dtype), std::byte{0});
    }
  });
}

int64_t plan_column_sum_bytes(ConstTensor x_TD) {
  const ConstRows rows(x_TD);
  return tile_sum_bytes(summed_tiles(rows.count(), rows.width(0)), rows.width(0));
}

}  // namespace cadre::kernels::cpu
