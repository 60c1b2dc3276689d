// Rotary embedding in portable vectors, compiled once per instruction set.

// arm64 uses NEON.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

// Not for the emulated vectors that Highway takes for x86-64's baseline: SSSE3 is the least here.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/cpu/float_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kTokensPerTile = 16;

template <typename Element>
void rotate(Element* x, const float* table, int64_t half, float sign) {
  for_each_vector(half, [&](auto tag, int64_t i) HWY_ATTR {
    const auto cosine = hn::LoadU(tag, table + i);
    const auto sine = hn::Mul(hn::Set(tag, sign), hn::LoadU(tag, table + half + i));
    const auto first = load_floats(tag, x + i);
    const auto second = load_floats(tag, x + half + i);
    store_floats(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), tag, x + i);
    store_floats(hn::MulAdd(first, sine, hn::Mul(second, cosine)), tag, x + half + i);
  });
}

template <typename Element>
void run_as(Context& context, const RopeTask& task) {
  const int64_t T = task.x_THD.shape[0];
  const int64_t H = task.x_THD.shape[1];
  const int64_t half = task.x_THD.shape[2] / 2;
  const int64_t P = task.table_PD.shape[0];
  const int32_t* const positions = task.position_T.begin<int32_t>();
  const float sign = task.rotation == Rotation::kForward ? 1.0f : -1.0f;
  const int64_t tiles = (T + kTokensPerTile - 1) / kTokensPerTile;
  context.threads.run(tiles, [&](int64_t tile, int) {
    const int64_t end = std::min(T, (tile + 1) * kTokensPerTile);
    for (int64_t t = tile * kTokensPerTile; t < end; ++t) {
      const int64_t position = positions[t];
      CADRE_CHECK(0 <= position && position < P, "rope_apply: position ", position,
                  " of a table of ", P);
      const float* const table = task.table_PD.begin<float>() + position * task.table_PD.strides[0];
      Element* const row = task.x_THD.begin<Element>() + t * task.x_THD.strides[0];
      for (int64_t h = 0; h < H; ++h) {
        rotate(row + h * task.x_THD.strides[1], table, half, sign);
      }
    }
  });
}

void run_rope(Context& context, const RopeTask& task) {
  switch (task.x_THD.dtype) {
    case DType::kF32:
      return run_as<float>(context, task);
    case DType::kBf16:
      return run_as<Bf16>(context, task);
    case DType::kF16:
      return run_as<F16>(context, task);
    case DType::kI32:
      break;
  }
  CADRE_CHECK(false, "rope_apply of ", name_of(task.x_THD.dtype));
}

}  // namespace

constexpr auto* kRunRope = run_rope;

}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
// Highway emulates conversions of f16 before AVX2's F16C, and loses small numbers.
const RopeBackend kRopeSimd{
    .target = Target::kCpuSimd, .run = N_SSSE3::kRunRope, .half_floats = false};
const RopeBackend kRopeAvx2{.target = Target::kCpuAvx2, .run = N_AVX2::kRunRope};
const RopeBackend kRopeAvx512{.target = Target::kCpuAvx512, .run = N_AVX3::kRunRope};
#else
const RopeBackend kRopeSimd{.target = Target::kCpuSimd, .run = HWY_STATIC_DISPATCH(kRunRope)};
#endif

}  // namespace cadre::kernels::cpu
#endif
