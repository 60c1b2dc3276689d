#include "train/run_state.h"

namespace cadre::train {
namespace {

constexpr int64_t kVersion = 1;

bool is_count(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() && json[key].get<int64_t>() >= 0;
}

}  // namespace

Json write_run_state(const RunState& state, int64_t optimizer_updates) {
  return {{"version", kVersion},
          {"step", state.step},
          {"samples", state.samples},
          {"tokens", state.tokens},
          {"optimizer_updates", optimizer_updates},
          {"bad_steps", state.bad_steps},
          {"loss_scale", state.loss_scale},
          {"good_steps", state.good_steps},
          {"recent_losses", state.recent_losses}};
}

Result<RunState> read_run_state(const Json& json, std::string_view source) {
  if (!json.is_object() || json.value("version", Json()) != Json(kVersion)) {
    return input_error(source, "/trainer_state.json: is not of version ", kVersion);
  }
  for (const char* key :
       {"step", "samples", "tokens", "optimizer_updates", "bad_steps", "good_steps"}) {
    if (!is_count(json, key)) {
      return input_error(source, "/trainer_state.json: ", key, " is missing or no count");
    }
  }
  if (!json.contains("loss_scale") || !json["loss_scale"].is_number() ||
      !json.contains("recent_losses") || !json["recent_losses"].is_array()) {
    return input_error(source, "/trainer_state.json: loss_scale or recent_losses is missing");
  }
  RunState state{.step = json["step"],
                 .samples = json["samples"],
                 .tokens = json["tokens"],
                 .bad_steps = json["bad_steps"],
                 .loss_scale = json["loss_scale"],
                 .good_steps = json["good_steps"]};
  for (const Json& loss : json["recent_losses"]) {
    if (!loss.is_number()) {
      return input_error(source, "/trainer_state.json: recent_losses holds no numbers");
    }
    state.recent_losses.push_back(loss.get<double>());
  }
  return state;
}

}  // namespace cadre::train
