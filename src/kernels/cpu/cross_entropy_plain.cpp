#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/cross_entropy_loss.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"

namespace cadre::kernels::cpu {
namespace {

void statistics(Context& context, Tensor max_T, Tensor sum_T, Tensor target_logit_T,
                ConstTensor logits_TV, ConstTensor target_T, const CrossEntropyOptions& options) {
  const ConstRows rows(logits_TV);
  const int32_t* const target = target_T.begin<int32_t>();
  const int64_t width = rows.width(0);
  const RowTiles tiles = row_tiles(rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const logits = rows.row(t);
      const int64_t column = target[t] - options.first_column;
      float max = 0.0f;
      float sum = 1.0f;
      float target_logit = 0.0f;
      if (target[t] != kIgnoredTarget) {
        max = load<float>(logits, 0);
        for (int64_t v = 1; v < width; ++v) {
          max = std::max(max, load<float>(logits, v));
        }
        sum = 0.0f;
        for (int64_t v = 0; v < width; ++v) {
          sum += std::exp(load<float>(logits, v) - max);
        }
        target_logit = 0 <= column && column < width ? load<float>(logits, column) : 0.0f;
      }
      max_T.begin<float>()[t] = max;
      sum_T.begin<float>()[t] = sum;
      target_logit_T.begin<float>()[t] = target_logit;
    }
  });
}

template <typename Element>
void backward_rows(Context& context, Tensor dlogits_TV, ConstTensor logits_TV, ConstTensor lse_T,
                   ConstTensor target_T, const CrossEntropyOptions& options) {
  const Rows dlogits_rows(dlogits_TV);
  const ConstRows rows(logits_TV);
  const float* const lse = lse_T.begin<float>();
  const int32_t* const target = target_T.begin<int32_t>();
  const int64_t width = rows.width(0);
  const RowTiles tiles = row_tiles(rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const logits = rows.row(t);
      std::byte* const dlogits = dlogits_rows.row(t);
      if (target[t] == kIgnoredTarget) {
        std::fill_n(dlogits, width * static_cast<int64_t>(sizeof(Element)), std::byte{0});
        continue;
      }
      const int64_t column = target[t] - options.first_column;
      const float p_scale = options.gradient_scale * (1.0f + 2.0f * options.z_loss * lse[t]);
      for (int64_t v = 0; v < width; ++v) {
        const float hit = v == column ? options.gradient_scale : 0.0f;
        store<Element>(dlogits, v, p_scale * std::exp(load<float>(logits, v) - lse[t]) - hit);
      }
    }
  });
}

void backward(Context& context, Tensor dlogits_TV, ConstTensor logits_TV, ConstTensor lse_T,
              ConstTensor target_T, const CrossEntropyOptions& options) {
  with_element(dlogits_TV.dtype, [&]<typename Element>(Element) {
    backward_rows<Element>(context, dlogits_TV, logits_TV, lse_T, target_T, options);
  });
}

}  // namespace

const CrossEntropyBackend kCrossEntropyPlain{.target = Target::kCpu,
                                             .statistics = statistics,
                                             .loss = cross_entropy_loss,
                                             .backward = backward};

}  // namespace cadre::kernels::cpu
