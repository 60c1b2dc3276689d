#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/peak_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Sums that do not wait for each other: more than a unit's latency times the number of units, on
// every processor known; and few enough for 16 registers.
constexpr int kSums = 12;

// Adds `rounds` products to each sum and returns the operations done. `memory` holds the sums, a
// vector each, and one vector of factors behind them.
double add_products(float* memory, int64_t rounds) {
  const HWY_FULL(float) floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  const auto load = [&](int64_t i) HWY_ATTR { return hn::LoadU(floats, memory + i * lanes); };
  const auto factor = load(kSums);
  auto a = load(0), b = load(1), c = load(2), d = load(3), e = load(4), f = load(5);
  auto g = load(6), h = load(7), i = load(8), j = load(9), k = load(10), l = load(11);
  for (int64_t round = 0; round < rounds; ++round) {
    a = hn::MulAdd(a, factor, factor);
    b = hn::MulAdd(b, factor, factor);
    c = hn::MulAdd(c, factor, factor);
    d = hn::MulAdd(d, factor, factor);
    e = hn::MulAdd(e, factor, factor);
    f = hn::MulAdd(f, factor, factor);
    g = hn::MulAdd(g, factor, factor);
    h = hn::MulAdd(h, factor, factor);
    i = hn::MulAdd(i, factor, factor);
    j = hn::MulAdd(j, factor, factor);
    k = hn::MulAdd(k, factor, factor);
    l = hn::MulAdd(l, factor, factor);
  }
  a = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, d)), hn::Add(hn::Add(e, f), hn::Add(g, h)));
  a = hn::Add(a, hn::Add(hn::Add(i, j), hn::Add(k, l)));
  hn::StoreU(a, floats, memory);
  return static_cast<double>(2 * kSums * lanes * rounds);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cadre::kernels {
namespace cpu {
namespace {

HWY_EXPORT(add_products);

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// The best of six slices of a millisecond: an interruption spoils one of them.
double measure_this_thread() {
  constexpr int64_t kRounds = 2000;
  // Of any target: HWY_MAX_BYTES would be that of the one this file is compiled for.
  constexpr size_t kVectorBytesMax = 256;
  std::array<float, kVectorBytesMax / sizeof(float) * 13> memory;
  memory.fill(0.5f);
  double best = 0.0;
  for (int slice = 0; slice < 6; ++slice) {
    const double start = seconds();
    double end = start;
    double operations = 0.0;
    while (end < start + 0.001) {
      operations += HWY_DYNAMIC_DISPATCH(add_products)(memory.data(), kRounds);
      end = seconds();
    }
    best = std::max(best, operations / (end - start));
  }
  return best;
}

}  // namespace
}  // namespace cpu

double measure_peak_flops(Context& context) {
  std::vector<double> flops(static_cast<size_t>(context.threads.threads()), 0.0);
  context.threads.run(context.threads.threads(), [&](int64_t tile, int) {
    flops[static_cast<size_t>(tile)] = cpu::measure_this_thread();
  });
  double sum = 0.0;
  for (const double of_thread : flops) {
    sum += of_thread;
  }
  return sum;
}

}  // namespace cadre::kernels
#endif
