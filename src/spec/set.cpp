#include "spec/set.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace cadre {
namespace {

using Kind = ConfigValue::Kind;

struct Step {
  std::string name;    // of a key, or
  int64_t index = -1;  // of an element
};

// "data.sources[0].paths" or "data.sources.0.paths"; nullopt: not a path.
std::optional<std::vector<Step>> parse_path(std::string_view path) {
  std::vector<Step> steps;
  std::string name;
  const auto end_name = [&]() {
    int64_t index = -1;
    const auto [stop, code] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_index = code == std::errc() && stop == name.data() + name.size() && index >= 0;
    steps.push_back(is_index ? Step{.name = {}, .index = index} : Step{.name = name, .index = -1});
    name.clear();
  };
  bool after_index = false;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.' || path[i] == '[') {
      if (name.empty() && !after_index) {
        return std::nullopt;
      }
      if (!name.empty()) {
        end_name();
      }
      after_index = false;
      if (path[i] == '[') {
        const size_t close = path.find(']', i);
        if (close == std::string_view::npos || close == i + 1) {
          return std::nullopt;
        }
        name = path.substr(i + 1, close - i - 1);
        end_name();
        if (steps.back().index < 0) {
          return std::nullopt;
        }
        after_index = true;
        i = close;
      }
    } else if (after_index) {
      return std::nullopt;
    } else {
      name += path[i];
    }
  }
  if (name.empty() && !after_index) {
    return std::nullopt;
  }
  if (!name.empty()) {
    end_name();
  }
  return steps;
}

std::string names_of(const std::vector<Step>& steps) {
  std::string path;
  for (const Step& step : steps) {
    if (step.index < 0) {
      path += (path.empty() ? "" : ".") + step.name;
    }
  }
  return path;
}

// What a path leads to, as far as the schema knows; nullptr for sections and unknown keys.
const Allowed* allowed_at(const std::string& path) {
  if (const Key* key = find_key(path); key != nullptr) {
    return &key->allowed;
  }
  if (const Synonym* synonym = find_synonym(path); synonym != nullptr) {
    const bool is_flag = synonym->kind == SynonymKind::kPrecisionFlag;
    return is_flag ? nullptr : &find_key(synonym->canonical)->allowed;
  }
  const size_t dot = path.rfind('.');
  const Key* list = dot == std::string::npos ? nullptr : find_key(path.substr(0, dot));
  if (list == nullptr || list->allowed.record == nullptr) {
    return nullptr;
  }
  const Key* field = find_key(*list->allowed.record, std::string_view(path).substr(dot + 1));
  return field == nullptr ? nullptr : &field->allowed;
}

bool is_plain_text(const Allowed* allowed, std::string_view text) {
  if (allowed == nullptr) {
    return false;
  }
  switch (allowed->type) {
    case KeyType::kText:
    case KeyType::kInputPath:
    case KeyType::kOutputPath:
    case KeyType::kChoice:
      return true;
    case KeyType::kTexts:
    case KeyType::kInputPaths:
      return !text.starts_with('[');
    default:
      return false;
  }
}

void set_places(ConfigValue& value, const std::string& place) {
  value.place = place;
  for (ConfigValue& item : value.items) {
    set_places(item, place);
  }
  for (ConfigValue::Entry& entry : value.entries) {
    entry.place = place;
    set_places(entry.value, place);
  }
}

// One setting, taken apart.
struct Setting {
  std::vector<Step> steps;
  std::string path;   // names only
  std::string place;  // "--set training.steps"
  std::string text;
};

void erase_at(ConfigValue& root, std::string_view path) {
  ConfigValue* section = &root;
  while (true) {
    const size_t dot = path.find('.');
    if (dot == std::string_view::npos) {
      section->erase(path);
      return;
    }
    section = section->find(path.substr(0, dot));
    if (section == nullptr) {
      return;
    }
    path = path.substr(dot + 1);
  }
}

void erase_all_spellings(ConfigValue& root, std::string_view canonical) {
  erase_at(root, canonical);
  for (const Synonym& synonym : all_synonyms()) {
    if (synonym.canonical == canonical) {
      erase_at(root, synonym.path);
    }
  }
}

// Takes out of the tree what the setting replaces.
void erase_replaced(ConfigValue& root, const std::string& path, bool with_alternative) {
  const Synonym* synonym = find_synonym(path);
  const std::string_view canonical = synonym != nullptr ? synonym->canonical : path;
  if (find_key(canonical) == nullptr) {
    return;
  }
  erase_all_spellings(root, canonical);
  for (const Alternatives& pair : all_alternatives()) {
    if (with_alternative && (pair.first == canonical || pair.second == canonical)) {
      erase_all_spellings(root, pair.first == canonical ? pair.second : pair.first);
    }
  }
}

ConfigValue* enter_element(ConfigValue& list, const Setting& setting, int64_t index,
                           ReadContext& context) {
  if (list.kind == Kind::kNull) {
    list.kind = Kind::kList;
  }
  const auto count = static_cast<int64_t>(list.items.size());
  if (list.kind != Kind::kList) {
    context.problems.add(setting.place, "", concat("element ", index, " of what is not a list"));
    return nullptr;
  }
  if (index > count) {
    context.problems.add(setting.place, "",
                         concat("element ", index, " of a list of ", count, "; allowed: 0 to ",
                                count, ", the last of which appends"));
    return nullptr;
  }
  if (index == count) {
    list.items.emplace_back();
    list.items.back().place = setting.place;
  }
  return &list.items[static_cast<size_t>(index)];
}

ConfigValue* enter_name(ConfigValue& map, const Setting& setting, const std::string& name,
                        ReadContext& context) {
  if (map.kind == Kind::kNull) {
    map.kind = Kind::kMap;
  }
  if (map.kind != Kind::kMap) {
    context.problems.add(setting.place, "", concat("\"", name, "\" of what is not a map of keys"));
    return nullptr;
  }
  if (map.find(name) == nullptr) {
    map.entries.push_back({.name = name, .place = setting.place, .value = {}});
    map.entries.back().value.place = setting.place;
  }
  return map.find(name);
}

// In config.json null is a value: sliding_window: null.
bool is_config_json(const std::string& path) {
  const Key* key = find_key(path);
  return key != nullptr && key->slot == nullptr;
}

std::optional<ConfigValue> value_of(const Setting& setting, ReadContext& context) {
  ConfigValue value;
  if (setting.text == "null") {
    value.kind = Kind::kNull;
  } else if (is_plain_text(allowed_at(setting.path), setting.text)) {
    value.kind = Kind::kScalar;
    value.text = setting.text;
  } else if (!setting.text.empty()) {
    Result<ConfigValue> parsed = parse_yaml(setting.text, setting.place);
    if (!parsed.ok()) {
      context.problems.add(setting.place, "",
                           concat("the value is not YAML (", parsed.error().message, ")"));
      return std::nullopt;
    }
    value = std::move(*parsed);
  }
  set_places(value, setting.place);
  return value;
}

void apply(ConfigValue& root, const Setting& setting, ReadContext& context) {
  std::optional<ConfigValue> value = value_of(setting, context);
  if (!value.has_value()) {
    return;
  }
  const bool is_null = setting.text == "null";
  const bool whole_key = std::all_of(setting.steps.begin(), setting.steps.end(),
                                     [](const Step& step) { return step.index < 0; });
  if (whole_key) {
    erase_replaced(root, setting.path, !is_null);
  }
  if (whole_key && is_null && !is_config_json(setting.path)) {
    erase_at(root, setting.path);
    return;
  }
  ConfigValue* at = &root;
  for (const Step& step : setting.steps) {
    if (at == nullptr) {
      return;
    }
    at = step.index >= 0 ? enter_element(*at, setting, step.index, context)
                         : enter_name(*at, setting, step.name, context);
  }
  if (at != nullptr) {
    *at = *std::move(value);
  }
}

}  // namespace

void apply_settings(ConfigValue& root, const std::vector<std::string>& settings,
                    ReadContext& context) {
  for (const std::string& text : settings) {
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::optional<std::vector<Step>> steps = parse_path(key);
    if (equals == std::string::npos || !steps.has_value() || steps->front().index >= 0) {
      context.problems.add("--set " + text, "", "is not of the form a.b=value or a.b[0].c=value");
      continue;
    }
    apply(root,
          {.steps = *steps,
           .path = names_of(*steps),
           .place = "--set " + key,
           .text = text.substr(equals + 1)},
          context);
  }
}

}  // namespace cadre
