// StepMetrics: what is known of a step when it has ended, and the files that record it.

#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "telemetry/ledger.h"

namespace cadre {

struct StepMetrics {
  int64_t step = 0;  // steps done, this one included
  double loss = 0.0;
  double grad_norm = 0.0;
  double learning_rate = 0.0;
  int64_t tokens = 0;  // of the whole run so far
  double tokens_per_second = 0.0;
  double mfu = 0.0;  // of the fp32 peak; 0: not measured
  double step_ms = 0.0;
  std::optional<double> z_loss = std::nullopt;
  std::optional<double> loss_scale = std::nullopt;
  std::optional<double> validation_loss = std::nullopt;
  bool skipped = false;  // the gradient was not finite, or the loss a spike: nothing was updated
  Ledger memory = {};
  int64_t resident_bytes = 0;
};

// One JSON object on one line, without the line's end. Numbers that are not finite become null.
std::string to_json_line(const StepMetrics& metrics);

// metrics.jsonl of a run folder: one line per step.
class MetricsFile {
 public:
  // Opens for appending, after dropping the lines of steps beyond `last_step`: they are about to be
  // made again. (-1: the file starts empty.)
  static Result<MetricsFile> open(const std::filesystem::path& path, int64_t last_step);

  Status append(const StepMetrics& metrics);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsFile(std::filesystem::path path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace cadre
