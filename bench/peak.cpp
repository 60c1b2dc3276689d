#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include "bench/peak.h"

#include <algorithm>
#include <cstdint>

#include "bench/timing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cadre::bench {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// More sums than two pipes of five cycles keep in flight. Returns flops; `sink` keeps the work.
int64_t multiply_and_add(float* sink) {
  constexpr int64_t kSums = 12;
  constexpr int64_t kRounds = 2'000'000;
  const HWY_FULL(float) floats;
  hn::Vec<HWY_FULL(float)> sums[kSums];
  for (auto& sum : sums) {
    sum = hn::Zero(floats);
  }
  const auto factor = hn::Set(floats, 0.5f);
  for (int64_t round = 0; round < kRounds; ++round) {
    HWY_UNROLL(12)
    for (int64_t i = 0; i < kSums; ++i) {
      sums[i] = hn::MulAdd(sums[i], factor, factor);
    }
  }
  for (const auto& sum : sums) {
    *sink += hn::GetLane(sum);
  }
  return kRounds * kSums * 2 * static_cast<int64_t>(hn::Lanes(floats));
}

}  // namespace HWY_NAMESPACE
}  // namespace cadre::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cadre::bench {

HWY_EXPORT(multiply_and_add);

double measure_peak_gflops() {
  float sink = 0.0f;
  double best = 0.0;
  for (int round = 0; round < 5; ++round) {
    int64_t flops = 0;
    const Seconds seconds =
        time_once([&] { flops = HWY_DYNAMIC_DISPATCH(multiply_and_add)(&sink); });
    best = std::max(best, static_cast<double>(flops) / seconds.processor * 1e-9);
  }
  return sink == 0.0f ? 0.0 : best;
}

}  // namespace cadre::bench
#endif
