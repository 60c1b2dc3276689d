#include "spec/statements.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace cadre {
namespace {

using Kind = ConfigValue::Kind;

// The names that may stand directly under `prefix` ("" or "training.").
std::vector<std::string_view> names_under(std::string_view prefix) {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view path) {
    if (!path.starts_with(prefix)) {
      return;
    }
    const std::string_view rest = path.substr(prefix.size());
    const std::string_view name = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const Key* key : all_keys()) {
    if (key->allowed.type != KeyType::kAnything) {
      add(key->path);
    }
  }
  return names;
}

std::string unknown_key(std::string_view name, const std::string& prefix) {
  if (name.find('.') != std::string_view::npos) {
    return concat("unknown key; a dot does not lead into a section, write \"",
                  name.substr(0, name.find('.')), ":\" and the rest indented under it");
  }
  std::vector<std::string_view> names = names_under(prefix);
  const std::vector<std::string_view> canonical = names;
  for (const Synonym& synonym : all_synonyms()) {
    if (synonym.path.starts_with(prefix) && !prefix.empty()) {
      names.push_back(synonym.path.substr(prefix.size()));
    }
  }
  if (const std::string_view near = nearest(name, names); !near.empty()) {
    return concat("unknown key; did you mean \"", near, "\"?");
  }
  // The right name in the wrong section?
  for (const Key* key : all_keys()) {
    const size_t dot = key->path.rfind('.');
    if (dot != std::string_view::npos && key->path.substr(dot + 1) == name &&
        key->allowed.type != KeyType::kAnything) {
      return concat("unknown key; did you mean \"", key->path, "\"?");
    }
  }
  return concat("unknown key; allowed here: ", listed(canonical));
}

bool is_section(const std::string& path) {
  const std::string prefix = path + ".";
  const auto& keys = all_keys();
  return std::any_of(keys.begin(), keys.end(),
                     [&prefix](const Key* key) { return key->path.starts_with(prefix); });
}

class Reader {
 public:
  Reader(ReadContext& context, std::vector<std::string>& notes)
      : context_(context), notes_(notes) {}

  void read_section(const ConfigValue& section, const std::string& prefix) {
    for (const ConfigValue::Entry& entry : section.entries) {
      const std::string path = prefix + entry.name;
      const bool dotted = entry.name.find('.') != std::string::npos;
      if (const Key* key = find_key(path); key != nullptr && !dotted) {
        read_key(*key, path, entry.value);
      } else if (const Synonym* synonym = find_synonym(path); synonym != nullptr && !dotted) {
        read_synonym(*synonym, entry.value);
      } else if (is_section(path) && !dotted) {
        read_subsection(path, entry.value);
      } else {
        context_.problems.add(entry.place, path, unknown_key(entry.name, prefix));
      }
    }
  }

  Statements finish() {
    settle_floor();
    for (const Alternatives& pair : all_alternatives()) {
      drop_zero(pair.first, pair.second);
      drop_zero(pair.second, pair.first);
    }
    return std::move(statements_);
  }

 private:
  void read_subsection(const std::string& path, const ConfigValue& value) {
    context_.places[path] = value.place;
    if (value.kind == Kind::kMap) {
      read_section(value, path + ".");
    } else if (value.kind == Kind::kNull) {
      if (path.starts_with("model.")) {  // rope_scaling: null, as config.json files have it
        statements_.state({path, Json(), said_text(path, Json()), value.place}, context_);
      }
    } else {
      context_.problems.add(value.place, path, "found a value; allowed: a map of keys");
      for (const Key* key : all_keys()) {
        if (key->path.starts_with(path + ".")) {
          statements_.spoil(key->path);
        }
      }
    }
  }

  void read_key(const Key& key, const std::string& path, const ConfigValue& value) {
    context_.places[path] = value.place;
    if (value.kind == Kind::kNull && key.slot == nullptr) {
      statements_.state({path, Json(), said_text(path, Json()), value.place}, context_);
      return;
    }
    if (value.kind == Kind::kNull && !key.default_text.empty()) {
      return;  // steps: null is as good as not given
    }
    std::optional<Json> read = read_value(value, key.allowed, path, context_);
    if (!read.has_value()) {
      statements_.spoil(path);
      return;
    }
    const std::string said = said_text(path, *read);
    statements_.state({path, *std::move(read), said, value.place}, context_);
  }

  void read_synonym(const Synonym& synonym, const ConfigValue& value) {
    const std::string spelling(synonym.path);
    if (value.kind == Kind::kNull) {
      return;
    }
    if (synonym.kind == SynonymKind::kPrecisionFlag) {
      read_precision_flag(synonym, value);
      return;
    }
    if (synonym.kind == SynonymKind::kNegativeIsAbsent && value.text == "-1" && !value.quoted) {
      return;
    }
    const Key* key = find_key(synonym.canonical);
    CADRE_CHECK(key != nullptr, synonym.canonical);
    context_.places[std::string(key->path)] = value.place;
    std::optional<Json> read = read_value(value, key->allowed, spelling, context_);
    if (!read.has_value()) {
      statements_.spoil(key->path);
      return;
    }
    if (synonym.kind == SynonymKind::kScheduler && value.text != "cosine_with_min_lr") {
      floor_place_ = value.place;
    }
    const std::string said =
        said_text(spelling, value.kind == Kind::kScalar ? Json(value.text) : *read);
    statements_.state({std::string(key->path), *std::move(read), said, value.place}, context_);
  }

  void read_precision_flag(const Synonym& synonym, const ConfigValue& value) {
    const std::string spelling(synonym.path);
    const std::optional<Json> flag = read_value(value, schema::boolean(), spelling, context_);
    if (!flag.has_value()) {
      statements_.spoil(synonym.canonical);
      return;
    }
    const std::string precision = spelling.substr(spelling.rfind('.') + 1);
    Statement statement{std::string(synonym.canonical), precision, said_text(spelling, *flag),
                        value.place};
    if (flag->get<bool>()) {
      context_.places[statement.key] = value.place;
      statements_.state(std::move(statement), context_);
    } else {
      statements_.deny(std::move(statement));
    }
  }

  // Hugging Face's schedules end at zero; who writes its key means its curve.
  void settle_floor() {
    constexpr std::string_view kFloor = "training.min_lr_ratio";
    const Statement* schedule = statements_.find("training.lr_scheduler");
    if (floor_place_.empty() || schedule == nullptr || schedule->value == "constant" ||
        statements_.is_given(kFloor)) {
      return;
    }
    statements_.state({std::string(kFloor), 0.0, schedule->said, floor_place_}, context_);
    notes_.push_back(concat(floor_place_, ": ", schedule->said,
                            " ends at zero, as in Hugging Face's Trainer: min_lr_ratio is 0"));
  }

  // Hugging Face's default of warmup_steps is 0, which gives way to warmup_ratio.
  void drop_zero(std::string_view key, std::string_view other) {
    const Statement* statement = statements_.find(key);
    if (statement != nullptr && statement->value == 0 && statements_.is_given(other)) {
      statements_.withdraw(key);
    }
  }

  ReadContext& context_;
  std::vector<std::string>& notes_;
  Statements statements_;
  std::string floor_place_;
};

}  // namespace

std::string said_text(std::string_view key, const Json& value) {
  return concat(key, ": ", value.is_string() ? value.get<std::string>() : value.dump());
}

void Statements::state(Statement statement, ReadContext& context) {
  const auto [earlier, is_new] = statements_.emplace(statement.key, statement);
  if (!is_new && earlier->second.value != statement.value) {
    context.problems.add(
        statement.place, statement.said,
        concat("contradicts ", earlier->second.said, " (", earlier->second.place, ")"));
  }
}

const Statement* Statements::find(std::string_view key) const {
  const auto found = statements_.find(std::string(key));
  return found == statements_.end() ? nullptr : &found->second;
}

void Statements::check_denials(ReadContext& context) const {
  for (const Statement& denial : denials_) {
    const Statement* statement = find(denial.key);
    if (statement != nullptr && statement->value == denial.value) {
      context.problems.add(denial.place, denial.said,
                           concat("contradicts ", statement->said, " (", statement->place, ")"));
    }
  }
}

Statements read_statements(const ConfigValue& root, ReadContext& context,
                           std::vector<std::string>& notes) {
  Reader reader(context, notes);
  reader.read_section(root, "");
  return reader.finish();
}

}  // namespace cadre
