#include "device/target.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cadre {
namespace {

#if defined(__x86_64__)
// Tiles are large, so Linux saves them only for a process that has asked (arch_prctl(2), Linux
// Documentation/arch/x86/xstate.rst).
bool may_use_amx_bf16() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned int kBf16 = 1u << 22, kTiles = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

Target best_of_this_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512 && __builtin_cpu_supports("avx512bf16") && may_use_amx_bf16()) {
    return Target::kCpuAmxBf16;
  }
  if (avx512 && __builtin_cpu_supports("avx512bf16")) {
    return Target::kCpuAvx512Bf16;
  }
  if (avx512) {
    return Target::kCpuAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return Target::kCpuAvx2;
  }
#endif
  return Target::kCpuSimd;
}

Target most_allowed() {
  for (const char* variable : {"CADRE_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) {
      continue;
    }
    const std::string isa = text;
    if (isa == "PLAIN") {
      return Target::kCpu;
    }
    if (isa == "AVX2" || isa == "AVX2_VNNI") {
      return Target::kCpuAvx2;
    }
    if (isa == "SSE41" || isa == "AVX") {
      return Target::kCpuSimd;
    }
    if (isa == "AVX512_CORE_BF16") {
      return Target::kCpuAvx512Bf16;
    }
    if (isa == "AVX512_CORE" || isa == "AVX512_CORE_VNNI") {
      return Target::kCpuAvx512;
    }
  }
  return Target::kCpuAmxBf16;
}

}  // namespace

Target detect_cpu_target() {
  static const Target target = std::min(best_of_this_cpu(), most_allowed());
  return target;
}

}  // namespace cadre
