#include "spec/deepspeed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "spec/json_places.h"

namespace cadre {
namespace {

constexpr std::string_view kOptimizer = "training.optimizer";
constexpr std::string_view kFloor = "training.min_lr_ratio";

const DeepSpeedKey* find_deepspeed_key(std::string_view path) {
  const auto keys = deepspeed_keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [path](const DeepSpeedKey& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_deepspeed_section(const std::string& path) {
  const auto keys = deepspeed_keys();
  return std::any_of(keys.begin(), keys.end(), [prefix = path + "."](const DeepSpeedKey& key) {
    return key.path.starts_with(prefix);
  });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return text;
}

// The value at "a.b.c", or nullptr.
const Json* at_path(const Json& root, std::string_view path) {
  const Json* at = &root;
  while (at->is_object()) {
    const size_t dot = path.find('.');
    const auto found = at->find(std::string(path.substr(0, dot)));
    if (found == at->end()) {
      return nullptr;
    }
    at = &*found;
    if (dot == std::string_view::npos) {
      return at;
    }
    path = path.substr(dot + 1);
  }
  return nullptr;
}

class Merger {
 public:
  Merger(const Json& root, std::map<std::string, std::string> places, Statements& statements,
         ReadContext& context, std::vector<std::string>& notes)
      : root_(root),
        places_(std::move(places)),
        statements_(statements),
        context_(context),
        notes_(notes) {}

  void merge() {
    walk(root_, "");
    merge_batch_size();
  }

 private:
  void walk(const Json& section, const std::string& prefix) {
    for (const auto& [name, value] : section.items()) {
      const std::string path = prefix + name;
      if (const DeepSpeedKey* key = find_deepspeed_key(path); key != nullptr) {
        if (key->canonical.empty()) {
          note(path, concat("has no meaning here and is ignored: ", key->remark));
        } else if (value == "auto") {
          note(path, concat("auto, which is ", key->canonical, " of the configuration"));
        } else {
          merge_key(*key, path, value);
        }
      } else if (is_deepspeed_section(path)) {
        merge_section(path, value);
      } else {
        unknown(path, name, prefix);
      }
    }
  }

  void merge_section(const std::string& path, const Json& value) {
    if (!value.is_object()) {
      problem(path, concat("found ", value.dump(), "; allowed: an object"));
      return;
    }
    const Json* enabled = at_path(value, "enabled");
    if (path == "fp16" && (enabled == nullptr || *enabled == false)) {  // the rest says nothing
      if (enabled != nullptr) {
        merge_precision("fp16.enabled", "fp16", *enabled);
      }
      return;
    }
    walk(value, path + ".");
  }

  void merge_key(const DeepSpeedKey& key, const std::string& path, const Json& value) {
    if (path == "train_batch_size" || path == "optimizer.params.adam_w_mode") {
      return;  // looked at together with others
    }
    if (path == "optimizer.type") {
      merge_optimizer(path, value);
    } else if (path == "optimizer.params.betas") {
      merge_betas(path, value);
    } else if (path == "scheduler.type") {
      merge_scheduler(path, value);
    } else if (path == "fp16.initial_scale_power") {
      merge_scale_power(path, value);
    } else if (path.ends_with(".enabled")) {
      merge_precision(path, path.starts_with("fp16") ? "fp16" : "bf16", value);
    } else {
      state(key.canonical, path, value);
    }
  }

  void merge_precision(const std::string& path, std::string_view precision, const Json& value) {
    const std::optional<Json> enabled =
        read_json_value(value, schema::boolean(), path, place(path), context_);
    if (!enabled.has_value()) {
      return;
    }
    Statement statement{"training.precision", precision, said_text(path, value), place(path)};
    if (enabled->get<bool>()) {
      statements_.state(std::move(statement), context_);
    } else {
      statements_.deny(std::move(statement));
    }
  }

  void merge_optimizer(const std::string& path, const Json& value) {
    const std::string type = value.is_string() ? lower(value.get<std::string>()) : "";
    const Json* decoupled = at_path(root_, "optimizer.params.adam_w_mode");
    if (type == "adam" && decoupled != nullptr && *decoupled == false) {
      problem("optimizer.params.adam_w_mode",
              "found false, Adam with its decay in the gradient; allowed: true, which is AdamW");
      return;
    }
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTypes = {
        {{"adam", "adamw"},
         {"adamw", "adamw"},
         {"lion", "lion"},
         {"muon", "muon"},
         {"sgd", "sgd"}}};
    for (const auto& [name, ours] : kTypes) {
      if (type == name) {
        statements_.state({std::string(kOptimizer), ours, said_text(path, value), place(path)},
                          context_);
        return;
      }
    }
    problem(path, concat("found ", value.dump(), "; allowed: Adam, AdamW, Lion, Muon and SGD"));
  }

  void merge_betas(const std::string& path, const Json& value) {
    if (!value.is_array() || value.size() != 2) {
      problem(path, concat("found ", value.dump(), "; allowed: a list of two numbers"));
      return;
    }
    state("training.beta1", path, value[0]);
    state("training.beta2", path, value[1]);
  }

  void merge_scheduler(const std::string& path, const Json& value) {
    const auto is = [&value](std::string_view type) { return value == type; };
    if (!is("WarmupLR") && !is("WarmupDecayLR") && !is("WarmupCosineLR")) {
      problem(path, concat("found ", value.dump(),
                           "; allowed: WarmupLR, WarmupDecayLR and WarmupCosineLR"));
      return;
    }
    const std::string_view ours = is("WarmupLR")        ? "constant"
                                  : is("WarmupDecayLR") ? "linear"
                                                        : "cosine";
    statements_.state({"training.lr_scheduler", ours, said_text(path, value), place(path)},
                      context_);
    // DeepSpeed's own floors, where the file does not say.
    if (is("WarmupDecayLR") ||
        (is("WarmupCosineLR") && at_path(root_, "scheduler.params.cos_min_ratio") == nullptr)) {
      const double floor = is("WarmupDecayLR") ? 0.0 : 0.0001;
      statements_.state({std::string(kFloor), floor, said_text(path, value), place(path)},
                        context_);
    }
    if (at_path(root_, "scheduler.params.warmup_type") == nullptr) {
      note(path, "warms up linearly here; DeepSpeed's own default is logarithmic");
    }
  }

  void merge_scale_power(const std::string& path, const Json& value) {
    const std::optional<Json> power =
        read_json_value(value, schema::whole(0, 64), path, place(path), context_);
    if (power.has_value()) {
      state("training.initial_loss_scale", path, std::ldexp(1.0, power->get<int>()));
    }
  }

  // train_batch_size = micro-batch x accumulation x replicas; what is missing follows from the
  // rest.
  void merge_batch_size() {
    const std::string path = "train_batch_size";
    const Json* given = at_path(root_, path);
    if (given == nullptr || *given == "auto") {
      return;
    }
    const std::optional<Json> total =
        read_json_value(*given, schema::at_least(1), path, place(path), context_);
    constexpr std::string_view kMicro = "training.micro_batch_size";
    constexpr std::string_view kAccumulation = "training.gradient_accumulation_steps";
    if (!total.has_value() || statements_.is_spoilt(kMicro) ||
        statements_.is_spoilt(kAccumulation)) {
      return;
    }
    const auto batch = total->get<int64_t>();
    const Statement* micro = statements_.find(kMicro);
    const Statement* accumulation = statements_.find(kAccumulation);
    const int64_t micro_size = micro != nullptr ? micro->value.get<int64_t>() : 0;
    const int64_t steps = accumulation != nullptr ? accumulation->value.get<int64_t>() : 0;
    const int64_t micro_least = std::max<int64_t>(1, micro_size);
    const int64_t steps_least = std::max<int64_t>(1, steps);
    const bool too_small =
        micro_least > batch / steps_least;  // asked first: the product may overflow
    const int64_t divisor = too_small ? 1 : micro_least * steps_least;
    const bool both = micro != nullptr && accumulation != nullptr;
    if (too_small || batch % divisor != 0 || (both && batch != divisor)) {
      problem(path, concat("found ", batch, ", which is not ", micro_said(micro, kMicro), " times ",
                           micro_said(accumulation, kAccumulation), " times 1 replica"));
      return;
    }
    if (micro == nullptr) {
      state(kMicro, path, batch / divisor);
    }
    if (accumulation == nullptr) {
      state(kAccumulation, path, micro == nullptr ? 1 : batch / divisor);
    }
  }

  static std::string micro_said(const Statement* statement, std::string_view key) {
    return statement == nullptr ? std::string(key)
                                : concat(statement->said, " (", statement->place, ")");
  }

  void state(std::string_view canonical, const std::string& path, const Json& value) {
    const Key* key = find_key(canonical);
    std::optional<Json> read = read_json_value(value, key->allowed, path, place(path), context_);
    if (!read.has_value()) {
      statements_.spoil(canonical);
      return;
    }
    context_.places.emplace(canonical, place(path));
    statements_.state(
        {std::string(canonical), *std::move(read), said_text(path, value), place(path)}, context_);
  }

  void unknown(const std::string& path, std::string_view name, const std::string& prefix) {
    std::vector<std::string_view> names;
    for (const DeepSpeedKey& key : deepspeed_keys()) {
      if (key.path.starts_with(prefix)) {
        const std::string_view rest = key.path.substr(prefix.size());
        names.push_back(rest.substr(0, rest.find('.')));
      }
    }
    if (const std::string_view near = nearest(name, names); !near.empty()) {
      problem(path, concat("unknown key; did you mean \"", near, "\"?"));
    } else {
      note(path, "is not a key of DeepSpeed that cadre knows, and is ignored");
    }
  }

  std::string place(const std::string& path) const {
    const auto found = places_.find(path);
    return found == places_.end() ? path : found->second;
  }
  void note(const std::string& path, std::string_view text) {
    notes_.push_back(concat(place(path), ": ", path, ": ", text));
  }
  void problem(const std::string& path, std::string_view text) {
    context_.problems.add(place(path), path, text);
  }

  const Json& root_;
  std::map<std::string, std::string> places_;
  Statements& statements_;
  ReadContext& context_;
  std::vector<std::string>& notes_;
};

}  // namespace

void merge_deepspeed(std::string_view text, const std::string& source, Statements& statements,
                     ReadContext& context, std::vector<std::string>& notes) {
  const Result<Json> root = parse_json(text, source);
  if (!root.ok()) {
    context.problems.add("--deepspeed", "", root.error().message);
    return;
  }
  if (!root->is_object()) {
    context.problems.add(source, "",
                         "a DeepSpeed configuration is a JSON object; found something else");
    return;
  }
  Merger(*root, json_places(text, source), statements, context, notes).merge();
}

}  // namespace cadre
