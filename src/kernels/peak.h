// The most that this machine's arithmetic units give right now: what speeds are shares of.

#pragma once

#include "device/context.h"

namespace cadre::kernels {

// Floating-point operations per second of fp32 fused multiply-additions from registers, on all
// threads of the context at once, with the widest vectors there are. Takes about 6 ms. A
// neighbour on the machine lowers it: measure before and after what is compared, take the larger.
double measure_peak_flops(Context& context);

}  // namespace cadre::kernels
