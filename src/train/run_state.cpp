#include "train/run_state.h"

#include <algorithm>

namespace cadre::train {
namespace {

constexpr int64_t kVersion = 1;

bool is_count(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_number_integer() && json[key].get<int64_t>() >= 0;
}

Json write_sources(const std::vector<SourceState>& sources) {
  Json list = Json::array();
  for (const SourceState& source : sources) {
    list.push_back(
        {{"name", source.name}, {"tokens", source.tokens}, {"checksum", source.checksum}});
  }
  return list;
}

Status read_sources(std::vector<SourceState>& sources, const Json& list,
                    std::string_view checkpoint) {
  for (const Json& item : list) {
    if (!item.is_object() || !is_count(item, "tokens") || !item.value("name", Json()).is_string() ||
        !item.value("checksum", Json()).is_string()) {
      return input_error(checkpoint,
                         "/trainer_state.json: sources lack a name, tokens or a checksum");
    }
    sources.push_back(
        {.name = item["name"], .tokens = item["tokens"], .checksum = item["checksum"]});
  }
  return {};
}

}  // namespace

bool is_spike(const RunState& state, double loss, double threshold) {
  if (threshold <= 0.0 || state.recent_losses.size() < kLossWindow / 4) {
    return false;
  }
  std::vector<double> sorted(state.recent_losses.begin(), state.recent_losses.end());
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<int64_t>(sorted.size() / 2));
  return loss > threshold * sorted[sorted.size() / 2];
}

void remember(RunState& state, double loss) {
  state.recent_losses.push_back(loss);
  if (state.recent_losses.size() > kLossWindow) {
    state.recent_losses.pop_front();
  }
}

Json write_run_state(const RunState& state, int64_t optimizer_updates) {
  return {{"version", kVersion},
          {"step", state.step},
          {"samples", state.samples},
          {"tokens", state.tokens},
          {"optimizer_updates", optimizer_updates},
          {"bad_steps", state.bad_steps},
          {"loss_scale", state.loss_scale},
          {"good_steps", state.good_steps},
          {"recent_losses", state.recent_losses},
          {"sources", write_sources(state.sources)}};
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
      !json.contains("recent_losses") || !json["recent_losses"].is_array() ||
      !json.contains("sources") || !json["sources"].is_array()) {
    return input_error(source,
                       "/trainer_state.json: loss_scale, recent_losses or sources is missing");
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
  if (Status status = read_sources(state.sources, json["sources"], source); !status) {
    return status.error();
  }
  return state;
}

Status check_same_data(const std::vector<SourceState>& saved, const std::vector<SourceState>& now,
                       std::string_view checkpoint) {
  CADRE_CHECK_EQ(saved.size(), now.size());  // the configuration's list may not change
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].checksum != now[i].checksum) {
      return input_error("the run cannot continue from ", checkpoint, ": data.sources[", i, "], \"",
                         now[i].name, "\", now has ", now[i].tokens, " tokens with the checksum ",
                         now[i].checksum, ", and had ", saved[i].tokens, " with ",
                         saved[i].checksum,
                         "; give it the files that it had, or start anew from the checkpoint's "
                         "weights: model.from "
                         "and another --output");
    }
  }
  return {};
}

}  // namespace cadre::train
