#include "kernels/peak.h"

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

TEST(Peak, IsThatOfAProcessorAndNotOfAToy) {
  testing::Rig rig({.kind = DeviceKind::kCpu, .target = detect_cpu_target()}, {.threads = 2});
  const double flops = measure_peak_flops(rig.context);
  EXPECT_GT(flops, 1e8);
  EXPECT_LT(flops, 1e14);
}

}  // namespace
}  // namespace cadre::kernels
