#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/expert_rows.h"

namespace cadre::kernels::cpu {
namespace {

// Marks slots beyond the capacity with row -1, all others with 0. `taken` counts by expert.
void leave_out(std::span<int32_t> row, std::span<const int32_t> expert, std::span<int32_t> taken,
               const ExpertRowsOptions& options) {
  const size_t per_sequence = expert.size() / static_cast<size_t>(options.sequences);
  for (size_t slot = 0; slot < expert.size(); ++slot) {
    if (per_sequence > 0 && slot % per_sequence == 0) {
      std::ranges::fill(taken, 0);
    }
    int32_t& count = taken[static_cast<size_t>(expert[slot])];
    row[slot] = options.capacity == 0 || count < options.capacity ? 0 : -1;
    ++count;
  }
}

// A counting sort. (A few numbers for every token, beside thousands that its experts compute.)
void sort_slots(Context&, const ExpertRows& rows, ConstTensor expert_TK,
                const ExpertRowsOptions& options) {
  const std::span<int32_t> slot_of = rows.slot_R.flat<int32_t>();
  const std::span<int32_t> row = rows.row_TK.flat<int32_t>();
  const std::span<int32_t> offset = rows.offset_E1.flat<int32_t>();
  const std::span<const int32_t> expert = expert_TK.flat<int32_t>();
  const size_t experts = offset.size() - 1;
  for (const int32_t e : expert) {
    CADRE_CHECK(0 <= e && static_cast<size_t>(e) < experts, "expert ", e, " of ", experts);
  }
  leave_out(row, expert, offset.first(experts), options);
  // offset[e + 1] counts expert e, then says where its rows begin, and after all are placed where
  // they end.
  std::ranges::fill(offset, 0);
  for (size_t slot = 0; slot < expert.size(); ++slot) {
    offset[static_cast<size_t>(expert[slot]) + 1] += row[slot] == 0 ? 1 : 0;
  }
  int32_t sum = 0;
  for (size_t e = 0; e < experts; ++e) {
    const int32_t count = offset[e + 1];
    offset[e + 1] = sum;
    sum += count;
  }
  CADRE_CHECK(static_cast<size_t>(sum) <= slot_of.size(), sum, " rows in ", slot_of.size());
  std::ranges::fill(slot_of, -1);
  for (size_t slot = 0; slot < expert.size(); ++slot) {
    if (row[slot] == 0) {
      row[slot] = offset[static_cast<size_t>(expert[slot]) + 1]++;
      slot_of[static_cast<size_t>(row[slot])] = static_cast<int32_t>(slot);
    }
  }
}

void gather_rows(Context& context, Tensor y_RD, ConstTensor x_TD, ConstTensor slot_R,
                 int64_t slots_per_token) {
  const Rows y(y_RD);
  const ConstRows x(x_TD);
  const int32_t* const slot = slot_R.begin<int32_t>();
  const int64_t row_bytes = y.width(0) * bytes_of(y_RD.dtype);
  const RowTiles tiles = row_tiles(y.count(), y.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t r = tiles.first(tile); r < tiles.end(tile); ++r) {
      if (slot[r] < 0) {
        std::fill_n(y.row(r), row_bytes, std::byte{0});
      } else {
        std::memcpy(y.row(r), x.row(slot[r] / slots_per_token), static_cast<size_t>(row_bytes));
      }
    }
  });
}

template <typename Element>
void sum_elements(Context& context, Tensor x_TD, ConstTensor y_RD, ConstTensor row_TK) {
  constexpr int64_t kPiece = 256;  // sums of a token that are made at a time
  const Rows x(x_TD);
  const ConstRows y(y_RD);
  const int32_t* const row = row_TK.begin<int32_t>();
  const int64_t slots = row_TK.shape[1];
  const int64_t width = x.width(0);
  const RowTiles tiles = row_tiles(x.count(), width * slots, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    std::array<float, kPiece> sums{};
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      for (int64_t first = 0; first < width; first += kPiece) {
        const int64_t count = std::min(kPiece, width - first);
        sums.fill(0.0f);
        for (int64_t k = 0; k < slots; ++k) {
          const int32_t r = row[t * slots + k];
          for (int64_t d = 0; r >= 0 && d < count; ++d) {
            sums[static_cast<size_t>(d)] += load<Element>(y.row(r), first + d);
          }
        }
        for (int64_t d = 0; d < count; ++d) {
          store<Element>(x.row(t), first + d, sums[static_cast<size_t>(d)]);
        }
      }
    }
  });
}

// Calls body(slot, row) for every slot, in tiles of tokens.
template <typename Body>
void for_each_slot(Context& context, ConstTensor row_TK, int64_t width, const Body& body) {
  const int32_t* const row = row_TK.begin<int32_t>();
  const RowTiles tiles = row_tiles(row_TK.shape.elements(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t slot = tiles.first(tile); slot < tiles.end(tile); ++slot) {
      body(slot, int64_t{row[slot]});
    }
  });
}

template <typename Element>
void weigh_elements(Context& context, Tensor y_RF, ConstTensor x_RF, ConstTensor weight_TK,
                    ConstTensor row_TK) {
  const Rows y(y_RF);
  const ConstRows x(x_RF);
  const float* const weight = weight_TK.begin<float>();
  const int64_t width = x_RF.shape[1];
  for_each_slot(context, row_TK, width, [&](int64_t slot, int64_t r) {
    for (int64_t f = 0; r >= 0 && f < width; ++f) {
      store<Element>(y.row(r), f, weight[slot] * load<Element>(x.row(r), f));
    }
  });
}

template <typename Element>
void weigh_elements_backward(Context& context, Tensor dx_RF, Tensor dweight_TK, ConstTensor dy_RF,
                             ConstTensor x_RF, ConstTensor weight_TK, ConstTensor row_TK) {
  const Rows dx(dx_RF);
  const ConstRows dy(dy_RF);
  const ConstRows x(x_RF);
  const float* const weight = weight_TK.begin<float>();
  float* const dweight = dweight_TK.begin<float>();
  const int64_t width = x_RF.shape[1];
  for_each_slot(context, row_TK, width, [&](int64_t slot, int64_t r) {
    std::array<float, 8> sums{};  // side by side, so that they are added at once
    for (int64_t f = 0; r >= 0 && f < width; ++f) {
      const float gradient = load<Element>(dy.row(r), f);
      sums[static_cast<size_t>(f % 8)] += gradient * load<Element>(x.row(r), f);
      store<Element>(dx.row(r), f, weight[slot] * gradient);
    }
    dweight[slot] =
        ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  });
}

void sum_rows(Context& context, Tensor x_TD, ConstTensor y_RD, ConstTensor row_TK) {
  with_element(x_TD.dtype, [&]<typename Element>(Element) {
    sum_elements<Element>(context, x_TD, y_RD, row_TK);
  });
}

void weigh_rows(Context& context, Tensor y_RF, ConstTensor x_RF, ConstTensor weight_TK,
                ConstTensor row_TK) {
  with_element(x_RF.dtype, [&]<typename Element>(Element) {
    weigh_elements<Element>(context, y_RF, x_RF, weight_TK, row_TK);
  });
}

void weigh_rows_backward(Context& context, Tensor dx_RF, Tensor dweight_TK, ConstTensor dy_RF,
                         ConstTensor x_RF, ConstTensor weight_TK, ConstTensor row_TK) {
  with_element(x_RF.dtype, [&]<typename Element>(Element) {
    weigh_elements_backward<Element>(context, dx_RF, dweight_TK, dy_RF, x_RF, weight_TK, row_TK);
  });
}

}  // namespace

const ExpertRowsBackend kExpertRowsPlain{.target = Target::kCpu,
                                         .expert_rows = sort_slots,
                                         .gather_rows = gather_rows,
                                         .sum_rows = sum_rows,
                                         .weigh_rows = weigh_rows,
                                         .weigh_rows_backward = weigh_rows_backward};

}  // namespace cadre::kernels::cpu
