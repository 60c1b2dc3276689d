// A Chrome trace (also read by Perfetto) of the ops of a step, each with its flops and bytes.
// (Trace Event Format: "X" events, times in microseconds.)

#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "telemetry/trace.h"

namespace cadre {

Status write_chrome_trace(const std::filesystem::path& path, const std::vector<TimedOp>& ops);

}  // namespace cadre
