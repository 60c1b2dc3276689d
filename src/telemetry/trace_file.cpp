#include "telemetry/trace_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cadre {

Status write_chrome_trace(const std::filesystem::path& path, const std::vector<TimedOp>& ops) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  const int64_t start_ns = ops.empty() ? 0 : ops.front().start_ns;
  for (const TimedOp& op : ops) {
    const double seconds = static_cast<double>(op.end_ns - op.start_ns) * 1e-9;
    const auto per_second = [&](int64_t amount) {
      return seconds > 0.0 ? static_cast<double>(amount) / seconds * 1e-9 : 0.0;
    };
    const int64_t bytes = op.op.bytes_read + op.op.bytes_written;
    events.push_back({{"name", std::string(op.op.name)},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", 0},
                      {"ts", static_cast<double>(op.start_ns - start_ns) * 1e-3},
                      {"dur", static_cast<double>(op.end_ns - op.start_ns) * 1e-3},
                      {"args",
                       {{"flops", op.op.flops},
                        {"bytes_read", op.op.bytes_read},
                        {"bytes_written", op.op.bytes_written},
                        {"gflops_per_second", per_second(op.op.flops)},
                        {"gb_per_second", per_second(bytes)}}}});
  }
  std::ofstream out(path);
  out << Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() << '\n';
  out.close();
  if (!out) {
    return failure(path.string(), ": cannot be written: ", std::strerror(errno));
  }
  return {};
}

}  // namespace cadre
