#include "train/probe.h"

#include <algorithm>
#include <cmath>

#include "kernels/cross_entropy.h"

namespace cadre::train {
namespace {

// Row `row` of a list of lists of ids in [least, vocab_size).
Result<std::vector<int32_t>> read_row(const Json& row, std::string_view place, int64_t vocab_size,
                                      bool may_be_ignored) {
  std::vector<int32_t> ids;
  if (!row.is_array()) {
    return input_error(place, ": expected a list of token ids, found ", row.type_name());
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const bool whole = row[i].is_number_integer();
    const int64_t id = whole ? row[i].get<int64_t>() : -1;
    const bool ignored = may_be_ignored && whole && id == kernels::kIgnoredTarget;
    if (!ignored && (!whole || id < 0 || id >= vocab_size)) {
      return input_error(place, "[", i, "]: ", row[i].dump(), " is not a token id below ",
                         vocab_size);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

void fill_positions(std::span<int32_t> positions, int64_t length) {
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % length);
  }
}

Json logits_of(Engine& engine, const ProbeTokens& tokens, const std::vector<int64_t>& positions) {
  Json list = Json::array();
  model::Batch batch = engine.filled_batch();
  batch.training = false;
  const OwnedTensor logits = engine.stage().logits(engine.context(), engine.activations(), batch);
  for (const int64_t asked : positions) {
    const int64_t position = asked < 0 ? asked + tokens.length : asked;
    const std::span<float> row = logits.view().row<float>(position);
    list.push_back({{"sequence", 0},
                    {"position", position},
                    {"values", std::vector<float>(row.begin(), row.end())}});
  }
  return list;
}

// Gradients of the sum over targets, divided by their number: those of the mean.
Json gradients_of(Engine& engine, double target_tokens) {
  Json object = Json::object();
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    if (parameter.gradient.empty()) {
      continue;
    }
    double squares = 0.0;
    std::vector<double> first;
    for (const float value : parameter.gradient.flat<float>()) {
      const double mean = value / target_tokens;
      squares += mean * mean;
      if (first.size() < 8) {
        first.push_back(mean);
      }
    }
    object[parameter.spec.name] = {{"norm", std::sqrt(squares)}, {"first", first}};
  }
  return object;
}

}  // namespace

Result<ProbeTokens> read_probe_tokens(const Json& json, std::string_view source,
                                      int64_t vocab_size) {
  if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array() ||
      json["tokens"].empty()) {
    return input_error(source, ": expected {\"tokens\": [[...], ...]}");
  }
  const bool has_targets = json.contains("targets");
  const Json& rows = json["tokens"];
  if (has_targets && (!json["targets"].is_array() || json["targets"].size() != rows.size())) {
    return input_error(source, ": targets is not a list of ", rows.size(), " lists");
  }
  ProbeTokens tokens{.sequences = static_cast<int64_t>(rows.size())};
  for (size_t b = 0; b < rows.size(); ++b) {
    Result<std::vector<int32_t>> row =
        read_row(rows[b], concat(source, ": tokens[", b, "]"), vocab_size, false);
    if (!row) {
      return row.error();
    }
    const auto length = static_cast<int64_t>(row->size()) - (has_targets ? 0 : 1);
    if (length < 1 || (b > 0 && length != tokens.length)) {
      return input_error(source, ": tokens[", b, "] has ", row->size(),
                         " ids; all sequences need the same number, at least 2");
    }
    tokens.length = length;
    tokens.inputs.insert(tokens.inputs.end(), row->begin(), row->begin() + length);
    if (!has_targets) {
      tokens.targets.insert(tokens.targets.end(), row->begin() + 1, row->end());
      continue;
    }
    Result<std::vector<int32_t>> targets =
        read_row(json["targets"][b], concat(source, ": targets[", b, "]"), vocab_size, true);
    if (!targets) {
      return targets.error();
    }
    if (targets->size() != row->size()) {
      return input_error(source, ": targets[", b, "] has ", targets->size(), " ids, tokens[", b,
                         "] ", row->size());
    }
    tokens.targets.insert(tokens.targets.end(), targets->begin(), targets->end());
  }
  if (std::ranges::all_of(tokens.targets,
                          [](int32_t id) { return id == kernels::kIgnoredTarget; })) {
    return input_error(source, ": every target is ", kernels::kIgnoredTarget,
                       "; a loss needs at least one that counts");
  }
  return tokens;
}

Json probe(Engine& engine, const ProbeTokens& tokens, const ProbeOptions& options) {
  const auto fill = [&tokens](const HostBatch& batch) {
    std::ranges::copy(tokens.inputs, batch.tokens.begin());
    std::ranges::copy(tokens.targets, batch.targets.begin());
    std::ranges::fill(batch.starts, 0);
    fill_positions(batch.positions, tokens.length);
  };
  Json json;
  if (options.gradients) {
    const StepResult result = engine.accumulate(
        {}, [&fill](int64_t, const HostBatch& batch) { fill(batch); }, 1);
    json = {{"loss", result.loss}, {"target_tokens", result.target_tokens}};
    json["gradients"] = gradients_of(engine, static_cast<double>(result.target_tokens));
    engine.clear_gradients();
  } else {
    EvaluationSums sums;
    engine.evaluate(sums, fill);
    json = {{"loss", sums.loss / static_cast<double>(sums.target_tokens)},
            {"target_tokens", sums.target_tokens}};
  }
  json["logits"] = logits_of(engine, tokens, options.positions);
  return json;
}

}  // namespace cadre::train
