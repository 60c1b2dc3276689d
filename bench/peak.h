// The fp32 FMA peak of one core, measured in the moment it is asked for.

#pragma once

namespace cadre::bench {

// GFLOP/s of a thread that does nothing but multiply and add in the widest vectors.
double measure_peak_gflops();

}  // namespace cadre::bench
