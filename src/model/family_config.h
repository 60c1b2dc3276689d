// Reads one config.json key by key and remembers what it has seen, so that no key passes unread.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "spec/model.h"

namespace cadre::model {

// Problems are gathered; a getter that finds one returns its fallback and the reading goes on.
class ConfigReader {
 public:
  // Both outlive the reader. `inside` is put before keys in messages ("rope_scaling.").
  ConfigReader(const Json& object, std::string_view source, std::string_view inside = "");

  // Whether the key is there, null or not.
  bool has(std::string_view key) const { return object_.contains(key); }
  // The value, or null where the key is absent or null. The key counts as read.
  const Json* find(std::string_view key);

  int64_t integer(std::string_view key, int64_t fallback, int64_t least, int64_t most);
  std::optional<int64_t> optional_integer(std::string_view key, int64_t least, int64_t most);
  double number(std::string_view key, double fallback, double least, double most);
  std::optional<double> optional_number(std::string_view key, double least, double most);
  bool boolean(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  std::vector<int64_t> integers(std::string_view key);  // one integer, or a list; from 0 up

  // Keys that change nothing in training.
  void ignore(std::initializer_list<std::string_view> keys);
  // A key that may be absent, null or `value`: anything else would change the computation.
  void only(std::string_view key, const Json& value, std::string_view reason);

  // "SOURCE: KEY: found VALUE, PROBLEM"
  void refuse(std::string_view key, std::string_view problem);
  void complain(const std::string& line);  // a line of its own: "SOURCE: LINE"
  void take_problems(const ConfigReader& other);

  // Refuses the keys that nobody asked for, but for those whose value is null.
  void refuse_unknown(std::string_view what);
  bool failed() const { return !problems_.empty(); }
  // The spec, or all problems, one a line.
  Result<ModelSpec> finish(const ModelSpec& spec) const;

 private:
  const Json& object_;  // outlives the reader
  std::string source_;
  std::string inside_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> problems_;
};

// Keys that every config.json may have: what transformers writes for generation and classification,
// and what other programs leave behind. Refuses those of them that change the computation.
void read_common_keys(ConfigReader& reader);

// bos_token_id and eos_token_id.
void read_token_ids(ConfigReader& reader, ModelSpec& spec);
void write_token_ids(const ModelSpec& spec, Json& config);

}  // namespace cadre::model
