// spawn(): runs a test's body once per rank, each on a thread of its own.

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/step_error.h"
#include "comm/inproc.h"

namespace cadre::testing {

// Returns when all ranks have ended. If any threw a StepError, throws one that holds them all, as
// "rank 0: ...\nrank 3: ...\n". A rank that ends gives up its place in the group.
inline void spawn(int ranks, const std::function<void(comm::Collective&)>& body,
                  std::chrono::milliseconds timeout = comm::kInprocTimeout) {
  std::vector<std::unique_ptr<comm::Collective>> group = comm::make_inproc(ranks, timeout);
  std::vector<std::string> failures(group.size());
  {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < group.size(); ++rank) {
      threads.emplace_back([&body, member = std::move(group[rank]), &failure = failures[rank]] {
        try {
          body(*member);
        } catch (const StepError& error) {
          failure = error.what();
        }
      });
    }
  }
  std::string all;
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) {
      all += "rank " + std::to_string(rank) + ": " + failures[rank] + "\n";
    }
  }
  if (!all.empty()) {
    throw StepError(all);
  }
}

}  // namespace cadre::testing
