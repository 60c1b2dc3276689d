#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise_shared.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/tile_sums.h"
#include "kernels/elementwise.h"

namespace cadre::kernels::cpu {
namespace {

void convert(Context& context, Tensor y, ConstTensor x) {
  const bool packed = all_packed({y, x});
  const Rows y_rows = elements_of(y, packed);
  const ConstRows x_rows = elements_of(x, packed);
  const RowTiles tiles = row_tiles(x_rows.count(), x_rows.width(0), kTilesUnbounded);
  const auto convert_rows = [&]<typename To, typename From>(To, From) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        for (int64_t d = 0; d < x_rows.width(t); ++d) {
          store<To>(y_rows.row(t), d, load<From>(x_rows.row(t), d));
        }
      }
    });
  };
  with_element(y.dtype, [&]<typename To>(To to) {
    with_element(x.dtype, [&]<typename From>(From from) { convert_rows(to, from); });
  });
}

void add(Context& context, Tensor y, ConstTensor a, ConstTensor b) {
  const bool packed = all_packed({y, a, b});
  const Rows y_rows = elements_of(y, packed);
  const ConstRows a_rows = elements_of(a, packed);
  const ConstRows b_rows = elements_of(b, packed);
  const RowTiles tiles = row_tiles(y_rows.count(), y_rows.width(0), kTilesUnbounded);
  with_element(y.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        for (int64_t d = 0; d < y_rows.width(t); ++d) {
          store<Element>(y_rows.row(t), d,
                         load<Element>(a_rows.row(t), d) + load<Element>(b_rows.row(t), d));
        }
      }
    });
  });
}

void column_sum_add(Context& context, Tensor sum_D, ConstTensor x_TD, std::byte* workspace) {
  const ConstRows rows(x_TD);
  const int64_t width = rows.width(0);
  const RowTiles tiles = summed_tiles(rows.count(), width);
  float* const tile_sums = reinterpret_cast<float*>(workspace);
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      float* const sums = tile_sums + tile * width;
      std::fill_n(sums, width, 0.0f);
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        for (int64_t d = 0; d < width; ++d) {
          sums[d] += load<Element>(rows.row(t), d);
        }
      }
    });
  });
  add_tile_sums(sum_D, tile_sums, tiles);
}

void dropout(Context& context, Tensor y_TD, ConstTensor x_TD, const DropoutOptions& options) {
  const Rows y_rows(y_TD);
  const ConstRows x_rows(x_TD);
  const int64_t width = x_rows.width(0);
  const uint32_t threshold = dropout_threshold(options.probability);
  const float scale = 1.0f / (1.0f - options.probability);
  const RowTiles tiles = row_tiles(x_rows.count(), width, kTilesUnbounded);
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        const int64_t first_word = (options.first_row + t) * width;
        for (int64_t d = 0; d < width; ++d) {
          const bool keep = random_word_at(options.key, first_word + d) >= threshold;
          store<Element>(y_rows.row(t), d, keep ? load<Element>(x_rows.row(t), d) * scale : 0.0f);
        }
      }
    });
  });
}

}  // namespace

const ElementwiseBackend kElementwisePlain{.target = Target::kCpu,
                                           .convert = convert,
                                           .add = add,
                                           .clear = clear_rows,
                                           .plan_column_sum_bytes = plan_column_sum_bytes,
                                           .column_sum_add = column_sum_add,
                                           .dropout = dropout};

}  // namespace cadre::kernels::cpu
