// Reading one value as the schema allows it, and collecting what is wrong.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "spec/schema.h"
#include "spec/yaml.h"

namespace cadre {

// All that is wrong with a configuration: a person mends it in one go.
class Problems {
 public:
  void add(std::string_view place, std::string_view key, std::string_view message);

  bool empty() const { return lines_.empty(); }
  Error error() const;  // one line each, at most 50

 private:
  std::vector<std::string> lines_;
};

// What values are read against.
struct ReadContext {
  std::string config_directory;   // input paths of the file are relative to it
  std::string working_directory;  // output paths, and input paths of --set
  Problems problems = {};
  // key -> place, of keys, sections and elements ("data.sources[0].paths"); "" is the file
  std::map<std::string, std::string> places = {};
};

// The value in its canonical form: the first name of a choice, a list where one element was given,
// absolute paths. nullopt: refused, `context.problems` says why. `key` is its path, for messages.
std::optional<Json> read_value(const ConfigValue& value, const Allowed& allowed,
                               const std::string& key, ReadContext& context);

// As read_value(), of a value that is not from YAML: a DeepSpeed file's.
std::optional<Json> read_json_value(const Json& value, const Allowed& allowed,
                                    const std::string& key, const std::string& place,
                                    ReadContext& context);

// The place of `key`, or of the nearest section around it; that of "" is the file itself.
std::string nearest_place(const std::map<std::string, std::string>& places, std::string_view key);

// `; did you mean "learning_rate"?`, or the list of what is allowed where nothing is near.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace cadre
