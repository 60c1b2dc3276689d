// What the operating system counts of this process.

#pragma once

#include <cstdint>

namespace cadre {

// Bytes in memory that belong to this process alone or that it has written: /proc/self/statm's
// resident pages without those of files. 0 where the system does not tell.
int64_t resident_bytes();

// Pages touched for the first time so far (minor faults).
int64_t page_faults();

}  // namespace cadre
