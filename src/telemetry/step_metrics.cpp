#include "telemetry/step_metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cadre {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// The step of a line, or nullopt if it was cut off by a kill.
std::optional<int64_t> step_of(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) {
    return std::nullopt;
  }
  return json["step"].get<int64_t>();
}

// The lines that stay, as text.
std::string lines_up_to(const std::filesystem::path& path, int64_t last_step) {
  std::ifstream in(path);
  std::string kept, line;
  while (std::getline(in, line)) {
    const std::optional<int64_t> step = step_of(line);
    if (step && *step <= last_step) {
      kept += line + '\n';
    }
  }
  return kept;
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  Json json = {{"step", metrics.step},
               {"loss", number(metrics.loss)},
               {"grad_norm", number(metrics.grad_norm)},
               {"lr", number(metrics.learning_rate)},
               {"tokens", metrics.tokens},
               {"tokens_per_second", number(metrics.tokens_per_second)},
               {"mfu", number(metrics.mfu)},
               {"step_ms", number(metrics.step_ms)}};
  const auto optional = [&](const char* key, const std::optional<double>& value) {
    if (value) {
      json[key] = number(*value);
    }
  };
  optional("z_loss", metrics.z_loss);
  optional("loss_scale", metrics.loss_scale);
  optional("validation_loss", metrics.validation_loss);
  if (metrics.skipped) {
    json["skipped"] = true;
  }
  Json memory = Json::object();
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    memory[std::string(name_of(static_cast<MemoryCategory>(i)))] = metrics.memory.bytes[i];
  }
  memory["resident"] = metrics.resident_bytes;
  json["memory"] = std::move(memory);
  return json.dump();
}

Result<MetricsFile> MetricsFile::open(const std::filesystem::path& path, int64_t last_step) {
  const std::string kept = lines_up_to(path, last_step);
  const std::filesystem::path temporary = path.string() + ".tmp";
  std::FILE* const file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) {
    return failure(temporary.string(), ": cannot be written: ", std::strerror(errno));
  }
  MetricsFile metrics(path, file);
  const bool written =
      std::fwrite(kept.data(), 1, kept.size(), file) == kept.size() && std::fflush(file) == 0;
  // The open file moves with its name.
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return failure(path.string(), ": cannot be written: ", std::strerror(errno));
  }
  return metrics;
}

Status MetricsFile::append(const StepMetrics& metrics) {
  const std::string line = to_json_line(metrics) + '\n';
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0) {
    return failure(path_.string(), ": cannot be written: ", std::strerror(errno));
  }
  return {};
}

}  // namespace cadre
