#include "spec/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "spec/schema.h"

namespace cadre {
namespace {

// Plain where every reader of YAML agrees that it is this text; in double quotes elsewhere.
std::string yaml_text(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  constexpr std::string_view kReserved[] = {"null", "true", "false", "yes", "no", "on",
                                            "off",  "y",    "n",     "nan", "inf"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  const bool is_word =
      std::find(std::begin(kReserved), std::end(kReserved), lower) == std::end(kReserved);
  const bool starts_well =
      !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/');
  const bool plain = starts_well && is_word && text.find_first_not_of(kPlain) == std::string::npos;
  if (plain) {
    return text;
  }
  std::string quoted = Json(text).dump();
  for (size_t at = quoted.find('\x7F'); at != std::string::npos; at = quoted.find('\x7F', at)) {
    quoted.replace(at, 1, "\\u007f");  // JSON lets it stand; our reader of YAML does not
  }
  return quoted;
}

std::string yaml_scalar(const Json& value) {
  if (value.is_string()) {
    return yaml_text(value.get<std::string>());
  }
  if (value.is_number_float()) {
    const std::string text = fmt::format("{}", value.get<double>());
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  return value.dump();
}

std::string flow(const Json& value) {
  if (!value.is_structured()) {
    return yaml_scalar(value);
  }
  std::string text;
  for (const auto& [name, item] : value.items()) {
    text += text.empty() ? "" : ", ";
    text += value.is_object() ? yaml_text(name) + ": " + flow(item) : flow(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

bool is_absent(const Key& key, const Json& value) {
  if (value.is_null()) {
    return true;
  }
  // A default that only words can tell is not a value that could be written.
  const bool out_of_bounds = value.is_number() && value.get<double>() < key.allowed.minimum;
  return !key.default_text.empty() && (value == "" || value == Json::array() || out_of_bounds);
}

// A list of records without the fields that are absent.
Json without_absent(const Key& key, Json list) {
  if (key.allowed.type == KeyType::kRecords) {
    for (Json& record : list) {
      for (const Key& field : *key.allowed.record) {
        const auto found = record.find(std::string(field.path));
        if (found != record.end() && is_absent(field, *found)) {
          record.erase(std::string(field.path));
        }
      }
    }
  }
  return list;
}

class Printer {
 public:
  void key(std::string_view path, const Json& value) {
    enter(path);
    const std::string name = yaml_text(std::string(path.substr(path.rfind('.') + 1)));
    const bool is_records = value.is_array() && !value.empty() && value[0].is_object();
    if (!is_records) {
      text_ += std::string(indentation_, ' ') + name + ": " + flow(value) + "\n";
      return;
    }
    text_ += std::string(indentation_, ' ') + name + ":\n";
    for (const Json& record : value) {
      std::string_view lead = "- ";
      for (const auto& [field, item] : record.items()) {
        text_ += concat(std::string(indentation_ + 2, ' '), lead, field, ": ", flow(item), "\n");
        lead = "  ";
      }
    }
  }

  std::string text() && { return std::move(text_); }

 private:
  // Opens the sections of `path` that the key before it was not in.
  void enter(std::string_view path) {
    indentation_ = 0;
    std::string section;
    bool open = true;
    for (size_t begin = 0, dot = path.find('.'); dot != std::string_view::npos;
         begin = dot + 1, dot = path.find('.', begin)) {
      section = path.substr(0, dot + 1);
      open = open && last_.starts_with(section);
      if (!open) {
        text_ += concat(indentation_ == 0 ? "\n" : "", std::string(indentation_, ' '),
                        path.substr(begin, dot - begin), ":\n");
      }
      indentation_ += 2;
    }
    last_ = path;
  }

  std::string text_;
  std::string last_;
  size_t indentation_ = 0;
};

}  // namespace

std::string print_run(const RunSpec& run) {
  Draft draft = draft_of(run);
  Printer printer;
  bool config_printed = false;
  for (const Key* key : all_keys()) {
    if (key->slot != nullptr) {
      const Json value = without_absent(*key, get_field(*key, &draft));
      if (!is_absent(*key, value)) {
        printer.key(key->path, value);
      }
    } else if (!config_printed) {
      for (const auto& [name, value] : run.model.config.items()) {
        printer.key("model." + name, value);
      }
      config_printed = true;
    }
  }
  return std::move(printer).text();
}

}  // namespace cadre
