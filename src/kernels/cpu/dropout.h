// What dropout's CPU implementations share.

#pragma once

#include <cmath>
#include <cstdint>

namespace cadre::kernels::cpu {

// A word below it drops its element: probability * 2^32, rounded.
inline uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(std::llround(static_cast<double>(probability) * 4294967296.0));
}

}  // namespace cadre::kernels::cpu
