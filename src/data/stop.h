// StopAsked: what work that may take minutes asks now and then, so that it can be interrupted.

#pragma once

#include <functional>

#include "base/result.h"

namespace cadre::data {

// True once somebody wants an end; called from any thread. Empty: nobody ever does.
using StopAsked = std::function<bool()>;

// The error of work that ended for that reason. What was complete before stays, the rest is gone.
inline Status stop_status(const StopAsked& stop) {
  return stop && stop() ? Status(failure("data: stopped on request before all was prepared"))
                        : Status();
}

}  // namespace cadre::data
