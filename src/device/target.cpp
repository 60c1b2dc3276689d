#include "device/target.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace cadre {
namespace {

Target best_of_this_cpu() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
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
    if (isa == "AVX512_CORE" || isa == "AVX512_CORE_VNNI") {
      return Target::kCpuAvx512;
    }
  }
  return Target::kCpuAvx512Bf16;
}

}  // namespace

Target detect_cpu_target() {
  static const Target target = std::min(best_of_this_cpu(), most_allowed());
  return target;
}

}  // namespace cadre
