#include <cmath>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"

namespace cadre::kernels::cpu {
namespace {

float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

template <typename Element>
void swiglu_forward_rows(Context& context, Tensor y_TF, ConstTensor gate_up_T2F) {
  const Rows y_rows(y_TF);
  const ConstRows gate_up_rows(gate_up_T2F);
  const int64_t width = y_rows.width(0);
  const RowTiles tiles = row_tiles(y_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const gate_up = gate_up_rows.row(t);
      for (int64_t f = 0; f < width; ++f) {
        const float gate = load<Element>(gate_up, f);
        const float up = load<Element>(gate_up, width + f);
        store<Element>(y_rows.row(t), f, gate * sigmoid(gate) * up);
      }
    }
  });
}

template <typename Element>
void swiglu_backward_rows(Context& context, Tensor dgate_up_T2F, ConstTensor dy_TF,
                          ConstTensor gate_up_T2F) {
  const Rows dgate_up_rows(dgate_up_T2F);
  const ConstRows dy_rows(dy_TF);
  const ConstRows gate_up_rows(gate_up_T2F);
  const int64_t width = dy_rows.width(0);
  const RowTiles tiles = row_tiles(dy_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const gate_up = gate_up_rows.row(t);
      for (int64_t f = 0; f < width; ++f) {
        const float gate = load<Element>(gate_up, f);
        const float up = load<Element>(gate_up, width + f);
        const float dy = load<Element>(dy_rows.row(t), f);
        const float s = sigmoid(gate);
        store<Element>(dgate_up_rows.row(t), f, dy * up * s * (1.0f + gate * (1.0f - s)));
        store<Element>(dgate_up_rows.row(t), width + f, dy * gate * s);
      }
    }
  });
}

template <typename Element>
void gelu_forward_rows(Context& context, Tensor y_TF, ConstTensor x_TF) {
  const bool packed = all_packed({y_TF, x_TF});
  const Rows y_rows = elements_of(y_TF, packed);
  const ConstRows x_rows = elements_of(x_TF, packed);
  const RowTiles tiles = row_tiles(x_rows.count(), x_rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      for (int64_t f = 0; f < x_rows.width(t); ++f) {
        const float x = load<Element>(x_rows.row(t), f);
        const float inner = kGeluLinear * x + kGeluCubic * x * x * x;
        store<Element>(y_rows.row(t), f, 0.5f * x * (1.0f + std::tanh(inner)));
      }
    }
  });
}

template <typename Element>
void gelu_backward_rows(Context& context, Tensor dx_TF, ConstTensor dy_TF, ConstTensor x_TF) {
  const bool packed = all_packed({dx_TF, dy_TF, x_TF});
  const Rows dx_rows = elements_of(dx_TF, packed);
  const ConstRows dy_rows = elements_of(dy_TF, packed);
  const ConstRows x_rows = elements_of(x_TF, packed);
  const RowTiles tiles = row_tiles(x_rows.count(), x_rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      for (int64_t f = 0; f < x_rows.width(t); ++f) {
        const float x = load<Element>(x_rows.row(t), f);
        const float tanh = std::tanh(kGeluLinear * x + kGeluCubic * x * x * x);
        const float dinner = kGeluLinear + 3.0f * kGeluCubic * x * x;
        const float slope = 0.5f * (1.0f + tanh) + 0.5f * x * (1.0f - tanh * tanh) * dinner;
        store<Element>(dx_rows.row(t), f, load<Element>(dy_rows.row(t), f) * slope);
      }
    }
  });
}

void swiglu_forward(Context& context, Tensor y_TF, ConstTensor gate_up_T2F) {
  with_element(y_TF.dtype, [&]<typename Element>(Element) {
    swiglu_forward_rows<Element>(context, y_TF, gate_up_T2F);
  });
}

void swiglu_backward(Context& context, Tensor dgate_up_T2F, ConstTensor dy_TF,
                     ConstTensor gate_up_T2F) {
  with_element(dy_TF.dtype, [&]<typename Element>(Element) {
    swiglu_backward_rows<Element>(context, dgate_up_T2F, dy_TF, gate_up_T2F);
  });
}

void gelu_forward(Context& context, Tensor y_TF, ConstTensor x_TF) {
  with_element(x_TF.dtype,
               [&]<typename Element>(Element) { gelu_forward_rows<Element>(context, y_TF, x_TF); });
}

void gelu_backward(Context& context, Tensor dx_TF, ConstTensor dy_TF, ConstTensor x_TF) {
  with_element(x_TF.dtype, [&]<typename Element>(Element) {
    gelu_backward_rows<Element>(context, dx_TF, dy_TF, x_TF);
  });
}

}  // namespace

const ActivationBackend kActivationPlain{.target = Target::kCpu,
                                         .swiglu_forward = swiglu_forward,
                                         .swiglu_backward = swiglu_backward,
                                         .gelu_forward = gelu_forward,
                                         .gelu_backward = gelu_backward};

}  // namespace cadre::kernels::cpu
