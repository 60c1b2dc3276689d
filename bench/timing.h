// Time by the wall and by the processor. The second leaves out what other processes took, so
// figures can be compared on a machine that is shared.

#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace cadre::bench {

struct Seconds {
  double wall = 0.0;
  double processor = 0.0;  // of all threads of this process together
};

inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Body>
Seconds time_once(const Body& body) {
  const double processor = processor_seconds();
  const auto wall = std::chrono::steady_clock::now();
  body();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count(),
          processor_seconds() - processor};
}

// The best of several rounds: what disturbs only ever adds.
template <typename Body>
Seconds time_best(double seconds_to_spend, const Body& body) {
  Seconds best = time_once(body);
  double spent = best.wall;
  while (spent < seconds_to_spend) {
    const Seconds round = time_once(body);
    best.wall = std::min(best.wall, round.wall);
    best.processor = std::min(best.processor, round.processor);
    spent += round.wall;
  }
  return best;
}

}  // namespace cadre::bench
