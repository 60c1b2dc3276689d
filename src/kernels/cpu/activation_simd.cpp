// SwiGLU and GELU in portable vectors, compiled once per instruction set.

// Scalable vectors cannot be kept in arrays or structs; arm64 uses NEON. x86-64 starts at AVX2.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

template <typename Element>
void swiglu_forward_rows(Context& context, Tensor y_TF, ConstTensor gate_up_T2F) {
  const Rows y_rows(y_TF);
  const ConstRows gate_up_rows(gate_up_T2F);
  const int64_t width = y_rows.width(0);
  const RowTiles tiles = row_tiles(y_rows.count(), width, kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const gate_up = gate_up_rows.row(t);
      std::byte* const y = y_rows.row(t);
      for_each_vector(width, [&](int64_t f, auto lanes) HWY_ATTR {
        const Vector gate = load<Element>(gate_up, f, lanes);
        const Vector up = load<Element>(gate_up, width + f, lanes);
        store<Element>(hn::Mul(hn::Mul(gate, sigmoid(gate)), up), y, f, lanes);
      });
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
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const gate_up = gate_up_rows.row(t);
      const std::byte* const dy_row = dy_rows.row(t);
      std::byte* const dgate_up = dgate_up_rows.row(t);
      for_each_vector(width, [&](int64_t f, auto lanes) HWY_ATTR {
        const Vector gate = load<Element>(gate_up, f, lanes);
        const Vector up = load<Element>(gate_up, width + f, lanes);
        const Vector dy = load<Element>(dy_row, f, lanes);
        const Vector s = sigmoid(gate);
        const Vector silu = hn::Mul(gate, s);
        // s (1 + gate (1 - s)) = s + silu (1 - s)
        const Vector slope = hn::MulAdd(silu, hn::Sub(hn::Set(kFloats, 1.0f), s), s);
        store<Element>(hn::Mul(hn::Mul(dy, up), slope), dgate_up, f, lanes);
        store<Element>(hn::Mul(dy, silu), dgate_up, width + f, lanes);
      });
    }
  });
}

// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u), so that GELU needs no hyperbolic tangent.
HWY_INLINE Vector gelu_gate(Vector x, Vector square) {
  const Vector inner = hn::Mul(x, hn::MulAdd(hn::Set(kFloats, 2.0f * kGeluCubic), square,
                                             hn::Set(kFloats, 2.0f * kGeluLinear)));
  return sigmoid(inner);
}

template <typename Element>
void gelu_forward_rows(Context& context, Tensor y_TF, ConstTensor x_TF) {
  const bool packed = all_packed({y_TF, x_TF});
  const Rows y_rows = elements_of(y_TF, packed);
  const ConstRows x_rows = elements_of(x_TF, packed);
  const RowTiles tiles = row_tiles(x_rows.count(), x_rows.width(0), kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const x_row = x_rows.row(t);
      std::byte* const y_row = y_rows.row(t);
      for_each_vector(x_rows.width(t), [&](int64_t f, auto lanes) HWY_ATTR {
        const Vector x = load<Element>(x_row, f, lanes);
        store<Element>(hn::Mul(x, gelu_gate(x, hn::Mul(x, x))), y_row, f, lanes);
      });
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
  context.threads.run(tiles.count(), [&](int64_t tile, int) HWY_ATTR {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      const std::byte* const x_row = x_rows.row(t);
      const std::byte* const dy_row = dy_rows.row(t);
      std::byte* const dx_row = dx_rows.row(t);
      for_each_vector(x_rows.width(t), [&](int64_t f, auto lanes) HWY_ATTR {
        const Vector x = load<Element>(x_row, f, lanes);
        const Vector square = hn::Mul(x, x);
        const Vector gate = gelu_gate(x, square);
        const Vector dinner = hn::MulAdd(hn::Set(kFloats, 6.0f * kGeluCubic), square,
                                         hn::Set(kFloats, 2.0f * kGeluLinear));
        // gate + x gate (1 - gate) dinner
        const Vector bend = hn::Mul(hn::NegMulAdd(gate, gate, gate), hn::Mul(x, dinner));
        const Vector dy = load<Element>(dy_row, f, lanes);
        store<Element>(hn::Mul(dy, hn::Add(gate, bend)), dx_row, f, lanes);
      });
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

constexpr ActivationBackend backend(Target target) {
  return {.target = target,
          .swiglu_forward = swiglu_forward,
          .swiglu_backward = swiglu_backward,
          .gelu_forward = gelu_forward,
          .gelu_backward = gelu_backward};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
constinit const ActivationBackend kActivationAvx2 = N_AVX2::backend(Target::kCpuAvx2);
constinit const ActivationBackend kActivationAvx512 = N_AVX3::backend(Target::kCpuAvx512);
#else
constinit const ActivationBackend kActivationSimd = HWY_STATIC_DISPATCH(backend)(Target::kCpuSimd);
#endif

}  // namespace cadre::kernels::cpu
#endif
