#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/embedding.h"

namespace cadre::kernels::cpu {
namespace {

// A row of the table belongs to one tile, by its number.
constexpr int64_t kBackwardTiles = 16;

template <typename Element>
void forward_rows(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
                  int64_t first_row, bool add) {
  const Rows x_rows(x_TD);
  const ConstRows table(table_VD);
  const int32_t* const id = id_T.begin<int32_t>();
  const int64_t width = x_rows.width(0);
  const int64_t row_bytes = width * bytes_of(x_TD.dtype);
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      std::byte* const x = x_rows.row(t);
      const int64_t v = id[t] - first_row;
      const bool ours = 0 <= v && v < table.count();
      if (!add && ours) {
        std::memcpy(x, table.row(v), static_cast<size_t>(row_bytes));
      } else if (!add) {
        std::fill_n(x, row_bytes, std::byte{0});
      } else if (ours) {
        for (int64_t d = 0; d < width; ++d) {
          store<Element>(x, d, load<Element>(x, d) + load<Element>(table.row(v), d));
        }
      }
    }
  });
}

// A tile goes through all tokens in their order and adds those whose row is its own, so that no two
// threads add to one row at once and a row that many tokens share is summed the same way every
// time.
template <typename Element>
void backward_rows(Context& context, Tensor dtable_VD, ConstTensor dx_TD, ConstTensor id_T,
                   int64_t first_row) {
  const Rows dtable(dtable_VD);
  const ConstRows dx_rows(dx_TD);
  const int32_t* const id = id_T.begin<int32_t>();
  const int64_t width = dx_rows.width(0);
  context.threads.run(kBackwardTiles, [&](int64_t tile, int) {
    for (int64_t t = 0; t < dx_rows.count(); ++t) {
      const int64_t v = id[t] - first_row;
      if (0 <= v && v < dtable.count() && v % kBackwardTiles == tile) {
        float* const sums = reinterpret_cast<float*>(dtable.row(v));
        const std::byte* const dx = dx_rows.row(t);
        for (int64_t d = 0; d < width; ++d) {
          sums[d] += load<Element>(dx, d);
        }
      }
    }
  });
}

void forward(Context& context, Tensor x_TD, ConstTensor table_VD, ConstTensor id_T,
             int64_t first_row, bool add) {
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    forward_rows<Element>(context, x_TD, table_VD, id_T, first_row, add);
  });
}

void backward(Context& context, Tensor dtable_VD, ConstTensor dx_TD, ConstTensor id_T,
              int64_t first_row) {
  with_element(dx_TD.dtype, [&]<typename Element>(Element) {
    backward_rows<Element>(context, dtable_VD, dx_TD, id_T, first_row);
  });
}

}  // namespace

const EmbeddingBackend kEmbeddingPlain{
    .target = Target::kCpu, .forward = forward, .backward = backward};

}  // namespace cadre::kernels::cpu
