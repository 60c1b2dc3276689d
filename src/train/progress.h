// Progress: what a person sees of a run. On a terminal one line that is written over, elsewhere
// plain lines, a few seconds apart; or one JSON object a step.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "telemetry/step_metrics.h"

namespace cadre::train {

class Progress {
 public:
  struct Options {
    std::FILE* stream = nullptr;  // outlives the progress
    bool json = false;
    int64_t total_steps = 0;
    double seconds_between_lines = 2.0;  // of plain lines; the first and the last always come
  };
  explicit Progress(const Options& options);

  void show(const StepMetrics& metrics);

  // Leaves the line that is written over, before something else is printed.
  void end_line();

 private:
  std::string line(const StepMetrics& metrics) const;

  Options options_;
  bool terminal_;
  bool line_open_ = false;
  int64_t first_step_ = -1;
  std::chrono::steady_clock::time_point last_line_;
};

}  // namespace cadre::train
