// Ranks as threads of one process, so that whatever is split has a unit test without a network.

#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/collective.h"

namespace cadre::comm {

inline constexpr std::chrono::milliseconds kInprocTimeout{30'000};

// The members of one group by rank, each for the thread of its rank. Whatever stops one rank stops
// all: a wait that lasts longer than `timeout`, calls that differ (operation, elements or dtype), a
// member or a Pending that is given up early. Each then throws a StepError from the call or wait()
// it is in, and from every later one: what went wrong, and what each rank did last.
std::vector<std::unique_ptr<Collective>> make_inproc(
    int size, std::chrono::milliseconds timeout = kInprocTimeout);

}  // namespace cadre::comm
