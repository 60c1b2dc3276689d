// Target: what a kernel is compiled for, and what a machine is.

#pragma once

#include <string_view>

namespace cadre {

// The CPUs form a ladder: a machine runs the kernels of its own rung and of all below it.
enum class Target {
  kCpu,      // plain C++: the reference
  kCpuSimd,  // vectors of any width (Highway picks it); arm64 with NEON is this
  kCpuAvx2,
  kCpuAvx512,
  kCpuAvx512Bf16,  // with products of bf16
  kCpuAmxBf16,     // with products of tiles of bf16
  kCudaSm90,
};

constexpr std::string_view name_of(Target target) {
  switch (target) {
    case Target::kCpu:
      return "cpu";
    case Target::kCpuSimd:
      return "cpu-simd";
    case Target::kCpuAvx2:
      return "cpu-avx2";
    case Target::kCpuAvx512:
      return "cpu-avx512";
    case Target::kCpuAvx512Bf16:
      return "cpu-avx512-bf16";
    case Target::kCpuAmxBf16:
      return "cpu-amx-bf16";
    case Target::kCudaSm90:
      return "cuda-sm90";
  }
  return "unknown target";
}

constexpr bool is_cpu(Target target) {
  return target <= Target::kCpuAmxBf16;
}

constexpr bool runs_on(Target kernel, Target machine) {
  return is_cpu(kernel) && is_cpu(machine) ? kernel <= machine : kernel == machine;
}

// The rung of the CPU this process runs on. CADRE_MAX_CPU_ISA (or oneDNN's DNNL_MAX_CPU_ISA) set to
// PLAIN, AVX2, AVX512_CORE or AVX512_CORE_BF16 lowers it, so that a new machine can test the paths
// of an old one. Read once; where the machine has AMX, the first call also asks the kernel for its
// use.
Target detect_cpu_target();

}  // namespace cadre
