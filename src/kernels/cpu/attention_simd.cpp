// Attention in portable vectors, compiled once per instruction set. bf16 and f16 are storage: their
// rows are widened, the products are of floats.

// Vectors whose width is not known when compiling cannot be kept in arrays; arm64 uses NEON.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include "kernels/attention_backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

// Not for the emulated vectors that Highway takes for x86-64's baseline: SSSE3 is the least here.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/cpu/attention_backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {

// By dtype; the target is filled in below.
constexpr AttentionBackend kBackendF32 = backend_of<FloatMath<float>>(Target::kCpu);
constexpr AttentionBackend kBackendBf16 = backend_of<FloatMath<Bf16>>(Target::kCpu);
constexpr AttentionBackend kBackendF16 = backend_of<FloatMath<F16>>(Target::kCpu);

}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {
namespace {

constexpr AttentionBackend on(Target target, AttentionBackend backend) {
  backend.target = target;
  return backend;
}

}  // namespace

#if defined(__x86_64__)
const AttentionBackend kAttentionSimdF32 = on(Target::kCpuSimd, N_SSSE3::kBackendF32);
const AttentionBackend kAttentionSimdBf16 = on(Target::kCpuSimd, N_SSSE3::kBackendBf16);
// (No f16: Highway emulates its conversions before AVX2's F16C, and loses small numbers.)
const AttentionBackend kAttentionAvx2F32 = on(Target::kCpuAvx2, N_AVX2::kBackendF32);
const AttentionBackend kAttentionAvx2Bf16 = on(Target::kCpuAvx2, N_AVX2::kBackendBf16);
const AttentionBackend kAttentionAvx2F16 = on(Target::kCpuAvx2, N_AVX2::kBackendF16);
const AttentionBackend kAttentionAvx512F32 = on(Target::kCpuAvx512, N_AVX3::kBackendF32);
const AttentionBackend kAttentionAvx512Bf16 = on(Target::kCpuAvx512, N_AVX3::kBackendBf16);
const AttentionBackend kAttentionAvx512F16 = on(Target::kCpuAvx512, N_AVX3::kBackendF16);
#else
const AttentionBackend kAttentionSimdF32 = on(Target::kCpuSimd, HWY_STATIC_DISPATCH(kBackendF32));
const AttentionBackend kAttentionSimdBf16 = on(Target::kCpuSimd, HWY_STATIC_DISPATCH(kBackendBf16));
const AttentionBackend kAttentionSimdF16 = on(Target::kCpuSimd, HWY_STATIC_DISPATCH(kBackendF16));
#endif

}  // namespace cadre::kernels::cpu
#endif
