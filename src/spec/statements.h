// What a configuration says, key by key under the canonical names, from all its sources: the file,
// --set and a DeepSpeed file. Two sources may say the same; if they differ, both are named.

#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spec/value.h"

namespace cadre {

struct Statement {
  std::string key;   // canonical: "training.precision"
  Json value;        // canonical, checked
  std::string said;  // in the words of its source: "training.fp16: true"
  std::string place;
};

class Statements {
 public:
  void state(Statement statement, ReadContext& context);
  // The key does not have this value, whoever may say it does: fp16: false.
  void deny(Statement statement) { denials_.push_back(std::move(statement)); }
  // The key was given, but what was said is already refused: nothing more is said about it.
  void spoil(std::string_view key) { spoilt_.emplace(key); }
  void withdraw(std::string_view key) { statements_.erase(std::string(key)); }

  const Statement* find(std::string_view key) const;
  bool is_spoilt(std::string_view key) const { return spoilt_.contains(std::string(key)); }
  bool is_given(std::string_view key) const { return find(key) != nullptr || is_spoilt(key); }

  void check_denials(ReadContext& context) const;

  const std::map<std::string, Statement>& all() const { return statements_; }

 private:
  std::map<std::string, Statement> statements_;
  std::vector<Statement> denials_;
  std::set<std::string> spoilt_;
};

// Reads the tree of a configuration, a map; unknown keys and refused values go to
// `context.problems`, other remarks to `notes`.
Statements read_statements(const ConfigValue& root, ReadContext& context,
                           std::vector<std::string>& notes);

// "training.fp16: true"
std::string said_text(std::string_view key, const Json& value);

}  // namespace cadre
