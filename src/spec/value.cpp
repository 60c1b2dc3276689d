#include "spec/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/text.h"
#include "spec/number.h"

namespace cadre {
namespace {

using Kind = ConfigValue::Kind;

bool is_command_line(std::string_view place) {
  return place.starts_with("--");
}

// What neither run.yaml nor a system call could hold as it is.
std::string_view problem_of_text(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) {
    return "which has a zero byte";
  }
  return find_invalid_utf8(text) == std::string_view::npos ? "" : "which is not valid UTF-8";
}

std::string found_text(const ConfigValue& value) {
  constexpr size_t kShownMax = 60;
  switch (value.kind) {
    case Kind::kNull:
      return "found nothing";
    case Kind::kList:
      return value.items.empty() ? "found an empty list" : "found a list";
    case Kind::kMap:
      return "found a map";
    case Kind::kScalar:
      break;
  }
  std::string shown = value.text.substr(0, kShownMax);
  while (find_invalid_utf8(value.text) == std::string::npos &&
         find_invalid_utf8(shown) != std::string::npos) {
    shown.pop_back();  // part of a letter that was cut
  }
  shown += value.text.size() > kShownMax ? "…" : "";
  const bool plain = !value.quoted && !shown.empty() && problem_of_text(shown).empty() &&
                     shown.find('\n') == std::string::npos;
  return "found " +
         (plain ? shown : Json(shown).dump(-1, ' ', false, Json::error_handler_t::replace));
}

// One value that is being read.
struct Reading {
  const ConfigValue& value;
  const Allowed& allowed;
  const std::string& key;
  ReadContext& context;

  std::nullopt_t refuse(std::string_view why = {}) const {
    const std::string_view comma = why.empty() || why.starts_with(';') ? "" : ", ";
    context.problems.add(
        value.place, key,
        concat(found_text(value), comma, why, "; allowed: ", allowed_text(allowed)));
    return std::nullopt;
  }
  bool within_bounds(double number) const {
    return (allowed.above_minimum ? number > allowed.minimum : number >= allowed.minimum) &&
           (allowed.below_maximum ? number < allowed.maximum : number <= allowed.maximum);
  }
};

std::optional<Json> read_boolean(const Reading& reading) {
  const std::string& text = reading.value.text;
  if (text == "true" || text == "True" || text == "TRUE") {
    return true;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return false;
  }
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  const bool was_boolean = lower == "yes" || lower == "no" || lower == "on" || lower == "off" ||
                           lower == "y" || lower == "n";
  return reading.refuse(was_boolean ? "a boolean only of YAML 1.1" : "");
}

template <typename Number>
std::optional<Json> checked_number(const Reading& reading, const Result<Number>& number) {
  if (!number.ok()) {
    return reading.refuse(number.error().message);
  }
  if (!reading.within_bounds(static_cast<double>(*number))) {
    return reading.refuse();
  }
  return Json(*number);
}

// Kernels compute with floats: there, too, the number must be within its bounds.
std::optional<Json> checked_fraction(const Reading& reading) {
  const Result<double> number = parse_number(reading.value.text);
  std::optional<Json> checked = checked_number(reading, number);
  if (!checked.has_value()) {
    return checked;
  }
  constexpr double kFloatMax = std::numeric_limits<float>::max();
  if (std::abs(*number) > kFloatMax) {
    return reading.refuse(fmt::format("which no float holds (they end at {:.6g})", kFloatMax));
  }
  const auto rounded = static_cast<float>(*number);
  if (!reading.within_bounds(static_cast<double>(rounded))) {
    return reading.refuse(concat("which as a float is ", rounded));
  }
  return checked;
}

std::optional<Json> read_numeric(const Reading& reading) {
  if (reading.value.quoted) {
    return reading.refuse("a text; remove the quotes");
  }
  const std::string& text = reading.value.text;
  switch (reading.allowed.type) {
    case KeyType::kBoolean:
      return read_boolean(reading);
    case KeyType::kIntegerOrAuto:
      if (text == "auto") {
        return Json("auto");
      }
      return checked_number(reading, parse_whole(text));
    case KeyType::kSeed:
      return checked_number(reading, parse_unsigned(text));
    case KeyType::kNumber:
      return checked_fraction(reading);
    default:
      return checked_number(reading, parse_whole(text));
  }
}

std::optional<Json> read_choice(const Reading& reading) {
  std::vector<std::string_view> names;
  for (const ChoiceName& choice : reading.allowed.choices) {
    if (choice.name == reading.value.text) {
      const auto first =
          std::find_if(reading.allowed.choices.begin(), reading.allowed.choices.end(),
                       [&choice](const ChoiceName& other) { return other.value == choice.value; });
      return Json(first->name);
    }
    names.push_back(choice.name);
  }
  const std::string_view near = nearest(reading.value.text, names);
  return reading.refuse(near.empty() ? "" : concat("; did you mean \"", near, "\"?"));
}

std::optional<Json> read_path(const Reading& reading) {
  if (reading.value.text.empty()) {
    return reading.refuse();
  }
  const bool from_working_directory =
      reading.allowed.type == KeyType::kOutputPath || is_command_line(reading.value.place);
  const std::filesystem::path base =
      from_working_directory ? reading.context.working_directory : reading.context.config_directory;
  std::string path = (base / reading.value.text).lexically_normal().string();
  if (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  if (find_invalid_utf8(path) != std::string::npos) {
    return reading.refuse("in a folder whose name is not valid UTF-8");
  }
  return Json(path);
}

std::optional<Json> read_list(const Reading& reading, const Allowed& element) {
  const ConfigValue& value = reading.value;
  const bool is_nothing = value.kind == Kind::kList && value.items.empty();
  if (value.kind == Kind::kMap || value.kind == Kind::kNull ||
      (reading.allowed.not_empty && is_nothing)) {
    return reading.refuse();
  }
  if (value.kind == Kind::kScalar) {
    std::optional<Json> one = read_value(value, element, reading.key, reading.context);
    if (!one.has_value() || reading.allowed.type == KeyType::kIntegers) {
      return one;
    }
    return Json::array({*std::move(one)});
  }
  Json list = Json::array();
  bool complete = true;
  for (size_t i = 0; i < value.items.size(); ++i) {
    std::optional<Json> item =
        read_value(value.items[i], element, concat(reading.key, "[", i, "]"), reading.context);
    complete = complete && item.has_value();
    list.push_back(item.has_value() ? *std::move(item) : Json());
  }
  return complete ? std::optional<Json>(std::move(list)) : std::nullopt;
}

std::optional<Json> read_record(const ConfigValue& item, const std::string& path,
                                const Reading& list) {
  ReadContext& context = list.context;
  if (item.kind != Kind::kMap) {
    context.problems.add(item.place, path, concat(found_text(item), "; allowed: a map"));
    return std::nullopt;
  }
  context.places[path] = item.place;
  Json record = Json::object();
  bool complete = true;
  for (const ConfigValue::Entry& entry : item.entries) {
    const Key* key = find_key(*list.allowed.record, entry.name);
    const std::string key_path = path + "." + entry.name;
    if (key == nullptr) {
      std::vector<std::string_view> names;
      for (const Key& known : *list.allowed.record) {
        names.push_back(known.path);
      }
      context.problems.add(entry.place, key_path, "unknown key" + suggestion(entry.name, names));
      complete = false;
      continue;
    }
    context.places[key_path] = entry.value.place;
    std::optional<Json> value = read_value(entry.value, key->allowed, key_path, context);
    complete = complete && value.has_value();
    if (value.has_value()) {
      record[entry.name] = *std::move(value);
    }
  }
  for (const Key& key : *list.allowed.record) {
    if (key.default_text == "required" && item.find(key.path) == nullptr) {
      context.problems.add(item.place, concat(path, ".", key.path),
                           concat("not given; allowed: ", allowed_text(key.allowed)));
      complete = false;
    }
  }
  return complete ? std::optional<Json>(std::move(record)) : std::nullopt;
}

std::optional<Json> read_records(const Reading& reading) {
  if (reading.value.kind != Kind::kList) {
    return reading.refuse();
  }
  Json list = Json::array();
  bool complete = true;
  for (size_t i = 0; i < reading.value.items.size(); ++i) {
    std::optional<Json> record =
        read_record(reading.value.items[i], concat(reading.key, "[", i, "]"), reading);
    complete = complete && record.has_value();
    list.push_back(record.has_value() ? *std::move(record) : Json());
  }
  return complete ? std::optional<Json>(std::move(list)) : std::nullopt;
}

// By the rules of YAML 1.2's core schema, as nothing else says what it is.
Json read_anything(const ConfigValue& value) {
  Json result;
  switch (value.kind) {
    case Kind::kNull:
      break;
    case Kind::kScalar:
      if (value.quoted) {
        result = value.text;
      } else if (value.text == "true" || value.text == "false") {
        result = value.text == "true";
      } else if (const Result<int64_t> whole = parse_whole(value.text);
                 whole.ok() && value.text.find_first_of(".eE") == std::string::npos) {
        result = *whole;
      } else if (const Result<double> number = parse_number(value.text); number.ok()) {
        result = *number;
      } else {
        result = value.text;
      }
      break;
    case Kind::kList:
      result = Json::array();
      for (const ConfigValue& item : value.items) {
        result.push_back(read_anything(item));
      }
      break;
    case Kind::kMap:
      result = Json::object();
      for (const ConfigValue::Entry& entry : value.entries) {
        result[entry.name] = read_anything(entry.value);
      }
      break;
  }
  return result;
}

}  // namespace

void Problems::add(std::string_view place, std::string_view key, std::string_view message) {
  const bool place_says_key = key.empty() || place == concat("--set ", key);
  lines_.push_back(concat(place, ": ", place_says_key ? "" : concat(key, ": "), message));
}

Error Problems::error() const {
  constexpr size_t kLinesMax = 50;
  std::string text;
  for (size_t i = 0; i < std::min(lines_.size(), kLinesMax); ++i) {
    text += concat(i == 0 ? "" : "\n", lines_[i]);
  }
  if (lines_.size() > kLinesMax) {
    text += concat("\nand ", lines_.size() - kLinesMax, " more");
  }
  return input_error(text);
}

std::optional<Json> read_value(const ConfigValue& value, const Allowed& allowed,
                               const std::string& key, ReadContext& context) {
  const Reading reading{value, allowed, key, context};
  switch (allowed.type) {
    case KeyType::kAnything:
      return read_anything(value);
    case KeyType::kRecords:
      return read_records(reading);
    case KeyType::kTexts:
      return read_list(reading, {.type = KeyType::kText});
    case KeyType::kInputPaths:
      return read_list(reading, {.type = KeyType::kInputPath});
    case KeyType::kIntegers:
      return read_list(reading, {.type = KeyType::kInteger, .minimum = allowed.minimum});
    default:
      break;
  }
  if (value.kind != Kind::kScalar) {
    return reading.refuse();
  }
  if (const std::string_view problem = problem_of_text(value.text); !problem.empty()) {
    return reading.refuse(problem);
  }
  switch (allowed.type) {
    case KeyType::kText:
      return Json(value.text);
    case KeyType::kInputPath:
    case KeyType::kOutputPath:
      return read_path(reading);
    case KeyType::kChoice:
      return read_choice(reading);
    default:
      return read_numeric(reading);
  }
}

std::optional<Json> read_json_value(const Json& value, const Allowed& allowed,
                                    const std::string& key, const std::string& place,
                                    ReadContext& context) {
  ConfigValue scalar;
  scalar.place = place;
  if (value.is_structured()) {
    scalar.kind = value.is_array() ? Kind::kList : Kind::kMap;
  } else if (!value.is_null()) {
    scalar.kind = Kind::kScalar;
    scalar.quoted = value.is_string();
    scalar.text = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return read_value(scalar, allowed, key, context);
}

std::string nearest_place(const std::map<std::string, std::string>& places, std::string_view key) {
  while (true) {
    const auto found = places.find(std::string(key));
    if (found != places.end()) {
      return found->second;
    }
    if (key.empty()) {
      return {};
    }
    const size_t end = key.find_last_of(".[");
    key = key.substr(0, end == std::string_view::npos ? 0 : end);
  }
}

std::string suggestion(std::string_view name, const std::vector<std::string_view>& names) {
  const std::string_view near = nearest(name, names);
  if (!near.empty()) {
    return concat("; did you mean \"", near, "\"?");
  }
  return concat("; allowed here: ", listed(names));
}

}  // namespace cadre
