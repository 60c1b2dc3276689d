// Log: one line per event, for people and for grep.
//
//     I rank=0 step=1200 checkpoint: saved path="step-1200" bytes=14763950080 seconds=8.4
//
// The fixed text comes first, then key=value. Lines go to a stream (stderr, or a rank's log file);
// a terminal's progress line is cleared before each.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace cadre {

// May be used from several threads.
class Log {
 public:
  struct Options {
    std::FILE* stream = nullptr;  // outlives the log; nullptr: lines are dropped
    int rank = 0;
  };
  explicit Log(const Options& options) : options_(options) {}

  void info(std::string_view folder, std::string_view line) { write('I', folder, line); }
  void warning(std::string_view folder, std::string_view line) { write('W', folder, line); }
  void error(std::string_view folder, std::string_view line) { write('E', folder, line); }

  // Added to every later line; negative: none.
  void set_step(int64_t step) { step_ = step; }

  // Also appends every line to `stream`, which outlives the log.
  void copy_to(std::FILE* stream) { copy_ = stream; }

 private:
  void write(char level, std::string_view folder, std::string_view line);

  Options options_;
  std::FILE* copy_ = nullptr;
  std::atomic<int64_t> step_ = -1;
  std::mutex mutex_;
};

}  // namespace cadre
