#include "spec/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "base/text.h"

namespace cadre {
namespace {

std::string place_at(std::string_view source, int64_t line, int64_t column) {
  return concat(source, ":", line, ":", column);
}

// yaml-cpp counts columns in bytes; an editor counts them in characters.
std::string place_of(std::string_view text, std::string_view source, const YAML::Mark& mark) {
  const auto end = std::min(text.size(), static_cast<size_t>(std::max(mark.pos, 0)));
  const auto begin = end - std::min(end, static_cast<size_t>(std::max(mark.column, 0)));
  const std::string_view before = text.substr(begin, end - begin);
  const auto continuing = std::count_if(before.begin(), before.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0u) == 0x80u;
  });
  return place_at(source, mark.line + 1, mark.column + 1 - continuing);
}

// Thrown through yaml-cpp's parser by the builder below, and caught in parse_yaml().
struct Refusal {
  YAML::Mark mark;
  std::string message;
};

// Builds the tree from the parser's events. Events, not YAML::Load: the limits hold while it reads.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string_view text, std::string_view source, const YamlLimits& limits)
      : text_(text), source_(source), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_.has_value()) {
      throw Refusal{mark, "a second document; a configuration is one document"};
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add(mark, make(mark, ConfigValue::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    throw Refusal{mark, "anchors (&name) are not supported; write the value out, or quote a text"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    refuse_tag(mark, tag);
    if (static_cast<int64_t>(value.size()) > limits_.scalar_bytes_max) {
      throw Refusal{mark, concat("a value of ", value.size(), " bytes; at most ",
                                 limits_.scalar_bytes_max, " are allowed")};
    }
    ConfigValue scalar = make(mark, ConfigValue::Kind::kScalar);
    scalar.text = value;
    scalar.quoted = tag == "!";
    add(mark, std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigValue::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, ConfigValue::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  [[noreturn]] static void refuse_alias(const YAML::Mark& mark) {
    throw Refusal{mark, "aliases (*name) are not supported; write the value out, or quote a glob"};
  }

  std::optional<ConfigValue>& root() { return root_; }

 private:
  struct Level {
    ConfigValue value;
    std::optional<std::string> key = std::nullopt;  // of a map: read, its value is still to come
    std::string key_place = {};
    std::map<std::string, std::string> places = {};  // of the keys so far
  };

  ConfigValue make(const YAML::Mark& mark, ConfigValue::Kind kind) {
    if (++values_ > limits_.values_max) {
      throw Refusal{mark, concat("more than ", limits_.values_max, " values")};
    }
    ConfigValue value;
    value.kind = kind;
    value.place = place_of(text_, source_, mark);
    return value;
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refusal{mark, concat("tags (", tag, ") are not supported; the schema knows each type")};
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, ConfigValue::Kind kind) {
    refuse_tag(mark, tag);
    if (static_cast<int>(levels_.size()) >= limits_.depth_max) {
      throw Refusal{mark, concat("nested more than ", limits_.depth_max, " deep")};
    }
    if (expects_key()) {
      throw Refusal{mark, "a list or a map where a key is expected; is a bracket open?"};
    }
    levels_.push_back({.value = make(mark, kind)});
  }

  void close() {
    ConfigValue value = std::move(levels_.back().value);
    levels_.pop_back();
    attach(std::move(value));
  }

  bool expects_key() const {
    return !levels_.empty() && levels_.back().value.kind == ConfigValue::Kind::kMap &&
           !levels_.back().key.has_value();
  }

  void add(const YAML::Mark& mark, ConfigValue value) {
    if (!expects_key()) {
      attach(std::move(value));
      return;
    }
    Level& level = levels_.back();
    if (value.kind == ConfigValue::Kind::kNull) {
      throw Refusal{mark, "a key without a name"};
    }
    if (value.text == "<<" && !value.quoted) {
      throw Refusal{mark, "merge keys (<<) are not supported; write the values out"};
    }
    const auto [first, is_new] = level.places.emplace(value.text, value.place);
    if (!is_new) {
      throw Refusal{mark, concat("the key \"", value.text, "\" stands twice, the first time at ",
                                 first->second)};
    }
    level.key = std::move(value.text);
    level.key_place = std::move(value.place);
  }

  void attach(ConfigValue value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = levels_.back();
    if (level.value.kind == ConfigValue::Kind::kList) {
      level.value.items.push_back(std::move(value));
      return;
    }
    if (value.kind == ConfigValue::Kind::kNull) {
      value.place = level.key_place;  // where nothing stands, the parser is already elsewhere
    }
    level.value.entries.push_back(
        {std::move(*level.key), std::move(level.key_place), std::move(value)});
    level.key.reset();
  }

  std::string_view text_;
  std::string_view source_;
  YamlLimits limits_;
  std::vector<Level> levels_;
  std::optional<ConfigValue> root_;
  int64_t values_ = 0;
};

// What yaml-cpp would take for something else than a person sees: UTF-16, NUL, tabs as indentation.
Status check_characters(std::string_view text, std::string_view source) {
  int64_t line = 1, column = 1;
  bool in_indentation = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<unsigned char>(text[i]);
    if (letter == '\t' && in_indentation) {
      const size_t content = text.find_first_not_of(" \t\r", i);
      if (content != std::string_view::npos && text[content] != '\n' && text[content] != '#') {
        return input_error(place_at(source, line, column),
                           ": a tab in the indentation; YAML allows only spaces there");
      }
    }
    if ((letter < 0x20 && letter != '\t' && letter != '\n' && letter != '\r') || letter == 0x7F) {
      return input_error(place_at(source, line, column), ": a control character (code ",
                         static_cast<int>(letter), "); write it as an escape in double quotes");
    }
    if (letter == '\n') {
      line += 1;
      column = 1;
      in_indentation = true;
    } else {
      column += (letter & 0xC0u) == 0x80u ? 0 : 1;
      in_indentation = in_indentation && (letter == ' ' || letter == '\t');
    }
  }
  return {};
}

Status check_text(std::string_view text, std::string_view source, const YamlLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.bytes_max) {
    return input_error(source, ": has ", text.size(), " bytes; a configuration has at most ",
                       limits.bytes_max);
  }
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    const std::string_view before = text.substr(0, bad);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n');
    const size_t column = start == std::string_view::npos ? bad + 1 : bad - start;
    return input_error(place_at(source, line, static_cast<int64_t>(column)), ": not valid UTF-8");
  }
  return check_characters(text, source);
}

}  // namespace

const ConfigValue* ConfigValue::find(std::string_view name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) {
      return &entry.value;
    }
  }
  return nullptr;
}

ConfigValue* ConfigValue::find(std::string_view name) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(name));
}

void ConfigValue::erase(std::string_view name) {
  std::erase_if(entries, [name](const Entry& entry) { return entry.name == name; });
}

Result<ConfigValue> parse_yaml(std::string_view text, std::string_view source,
                               const YamlLimits& limits) {
  if (const Status status = check_text(text, source, limits); !status.ok()) {
    return status.error();
  }
  Builder builder(text, source, limits);
  const auto refused = [&](const YAML::Mark& mark, std::string_view message) {
    return input_error(place_of(text, source, mark), ": ", message);
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    return refused(refusal.mark, refusal.message);
  } catch (const YAML::Exception& error) {
    if (error.msg.find("anchor") != std::string::npos) {
      return refused(error.mark, "an alias (*name); write the value out, or quote a glob");
    }
    return refused(error.mark, concat("not YAML: ", error.msg));
  }
  if (!builder.root().has_value() || builder.root()->kind == ConfigValue::Kind::kNull) {
    ConfigValue empty;
    empty.kind = ConfigValue::Kind::kMap;
    empty.place = place_at(source, 1, 1);
    return empty;
  }
  return std::move(*builder.root());
}

}  // namespace cadre
