#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

namespace cadre::train {
namespace {

size_t columns_of(std::FILE* terminal) {
  winsize size{};
  const bool known = ioctl(fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size_t{size.ws_col} - 1 : std::string::npos;
}

}  // namespace

Progress::Progress(const Options& options)
    : options_(options), terminal_(isatty(fileno(options.stream)) != 0 && !options.json) {}

std::string Progress::line(const StepMetrics& metrics) const {
  const auto steps_left = static_cast<double>(options_.total_steps - metrics.step);
  std::string text = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  grad {:.3f}  lr {:.1e}  {:.0f} tokens/s", metrics.step,
      std::to_string(options_.total_steps).size(), options_.total_steps, metrics.loss,
      metrics.grad_norm, metrics.learning_rate, metrics.tokens_per_second);
  if (metrics.validation_loss) {
    text += fmt::format("  validation {:.4f}", *metrics.validation_loss);
  }
  if (metrics.skipped) {
    text += "  skipped";
  }
  return text + fmt::format("  {}  ETA {}", readable_bytes(metrics.resident_bytes),
                            readable_seconds(steps_left * metrics.step_ms * 1e-3));
}

void Progress::show(const StepMetrics& metrics) {
  if (options_.json) {
    std::fputs((to_json_line(metrics) + "\n").c_str(), options_.stream);
    std::fflush(options_.stream);
    return;
  }
  if (terminal_) {
    // A line that is longer than a row cannot be written over.
    const std::string text = line(metrics).substr(0, columns_of(options_.stream));
    std::fputs(("\r\033[K" + text).c_str(), options_.stream);
    std::fflush(options_.stream);
    line_open_ = true;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  const bool first = first_step_ < 0;
  first_step_ = first ? metrics.step : first_step_;
  const double elapsed = std::chrono::duration<double>(now - last_line_).count();
  if (first || metrics.step == options_.total_steps || metrics.validation_loss || metrics.skipped ||
      elapsed >= options_.seconds_between_lines) {
    std::fputs((line(metrics) + "\n").c_str(), options_.stream);
    std::fflush(options_.stream);
    last_line_ = now;
  }
}

void Progress::end_line() {
  if (line_open_) {
    std::fputs("\n", options_.stream);
    line_open_ = false;
  }
}

}  // namespace cadre::train
