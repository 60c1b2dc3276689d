// Context: where a kernel runs and what it may use there. The first argument of every kernel.

#pragma once

#include "device/arena.h"
#include "device/target.h"
#include "device/thread_pool.h"
#include "telemetry/trace.h"

namespace cadre {

enum class DeviceKind { kCpu, kMeta };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  Target target = Target::kCpu;  // on meta: of the machine that is rehearsed
};

// One per rank. All it refers to outlives it. (A CUDA context has its stream as well.)
struct Context {
  Device device;
  Arena& workspace;  // a kernel's scratch; empty between kernels
  ThreadPool& threads;
  Trace& trace;

  bool is_meta() const { return device.kind == DeviceKind::kMeta; }
};

}  // namespace cadre
