// Reading YAML that a person wrote: a tree in which every value remembers where it stands.
//
// The tree is untyped: a scalar is text, and the schema decides what it may mean. So `no` is a word
// where a word is wanted, and never false; 1e3 is a number where a number is wanted.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cadre {

struct ConfigValue {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  std::string text = {};   // of a scalar
  bool quoted = false;     // the scalar was quoted or a block: text, whatever it looks like
  std::string place = {};  // "run.yaml:12:3" or "--set training.steps"
  std::vector<ConfigValue> items;
  std::vector<Entry> entries;  // in the order of the file; no name twice

  // The value under `name`, or nullptr.
  const ConfigValue* find(std::string_view name) const;
  ConfigValue* find(std::string_view name);
  void erase(std::string_view name);
};

struct ConfigValue::Entry {
  std::string name;
  std::string place;
  ConfigValue value;
};

struct YamlLimits {
  int64_t bytes_max = int64_t{1} << 20;
  int64_t scalar_bytes_max = int64_t{1} << 16;
  int64_t values_max = 100000;
  int depth_max = 32;
};

// Refuses with `source:line:column`: what is not YAML, invalid UTF-8, control characters, tabs in
// an indentation, a key twice in one map, keys that are not scalars, anchors, aliases, merge keys,
// tags, a second document, and whatever exceeds the limits. An empty text is an empty map.
Result<ConfigValue> parse_yaml(std::string_view text, std::string_view source,
                               const YamlLimits& limits = {});

}  // namespace cadre
