// How an op picks its backend, the same way in every NAME.cpp.
//
// The public function of an op checks shapes, chooses a backend for the context's target, takes
// that backend's workspace, books the cost, and runs the backend unless the device is meta. So a
// rehearsal takes every decision that the run will take:
//
//   const Backend& backend = choose("name", kBackends, context, x.dtype);
//   const Arena::Block workspace = context.workspace.allocate(backend.plan_workspace_bytes(...));
//   const Trace::Span span = context.trace.book(BookedOp{.name = "name", ...});
//   if (!context.is_meta()) {
//     backend.run(...);
//   }
//
// The span lives until the function returns: that is how the op is timed.
//
// A backend is a table: the `target` it is for, the `dtype` if it is for one only (or a function
// takes(dtype) if it lacks some), functions, and plans. A plan is a pure function of shapes,
// strides and dtypes that needs no device.

#pragma once

#include <cstddef>
#include <string_view>

#include "base/check.h"
#include "base/dtype.h"
#include "device/context.h"

namespace cadre::kernels {

// The first of `backends` (best first, plain C++ last) that runs on the context's target and takes
// `dtype`. There is no silent fallback: an op without one is refused by name.
template <typename Backend, size_t kCount>
const Backend& choose(std::string_view op, const Backend* const (&backends)[kCount],
                      const Context& context, DType dtype) {
  const Target machine = context.device.target;
  for (const Backend* backend : backends) {
    bool takes_dtype = dtype != DType::kI32;
    if constexpr (requires { backend->dtype; }) {
      takes_dtype = backend->dtype == dtype;
    }
    if constexpr (requires { backend->takes(dtype); }) {
      takes_dtype = takes_dtype && backend->takes(dtype);
    }
    if (takes_dtype && runs_on(backend->target, machine)) {
      return *backend;
    }
  }
  CADRE_CHECK(false, op, " has no backend for ", name_of(machine), " ", name_of(dtype));
  return *backends[0];
}

}  // namespace cadre::kernels
