// Ledger: how much memory each category takes at its peak. A rehearsal's and a run's must agree.

#pragma once

#include <array>
#include <cstdint>
#include <numeric>

#include "telemetry/trace.h"

namespace cadre {

struct Ledger {
  std::array<int64_t, kMemoryCategories> bytes{};

  int64_t& of(MemoryCategory category) { return bytes[static_cast<size_t>(category)]; }
  int64_t of(MemoryCategory category) const { return bytes[static_cast<size_t>(category)]; }
  int64_t total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

  bool operator==(const Ledger&) const = default;
};

}  // namespace cadre
