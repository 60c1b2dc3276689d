#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

namespace cadre {

void Log::write(char level, std::string_view folder, std::string_view line) {
  const int64_t step = step_;
  const std::string where = step < 0 ? std::string() : fmt::format(" step={}", step);
  const std::string text =
      fmt::format("{} rank={}{} {}: {}\n", level, options_.rank, where, folder, line);
  const std::lock_guard lock(mutex_);
  for (std::FILE* stream : {options_.stream, copy_}) {
    if (stream == nullptr) {
      continue;
    }
    const bool terminal = isatty(fileno(stream)) != 0;
    std::fputs(terminal ? "\r\033[K" : "", stream);
    std::fputs(text.c_str(), stream);
    std::fflush(stream);
  }
}

}  // namespace cadre
