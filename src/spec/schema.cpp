#include "spec/schema.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace cadre {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string_view name_of_choice(const Key& key, int value) {
  for (const ChoiceName& choice : key.allowed.choices) {
    if (choice.value == value) {
      return choice.name;
    }
  }
  CADRE_CHECK(false, key.path, ": no name for the value ", value);
  return {};
}

int value_of_choice(const Key& key, std::string_view name) {
  for (const ChoiceName& choice : key.allowed.choices) {
    if (choice.name == name) {
      return choice.value;
    }
  }
  CADRE_CHECK(false, key.path, ": unchecked value ", name);
  return 0;
}

Json get_records(const Table& table, const RecordsSlot& slot) {
  Json list = Json::array();
  for (int64_t i = 0; i < slot.size(slot.list); ++i) {
    Json record = Json::object();
    for (const Key& key : table) {
      Json value = get_field(key, slot.element(slot.list, i));
      if (!value.is_null()) {
        record[std::string(key.path)] = std::move(value);
      }
    }
    list.push_back(std::move(record));
  }
  return list;
}

void set_records(const Table& table, const RecordsSlot& slot, const Json& list) {
  slot.resize(slot.list, 0);  // elements start from their defaults
  slot.resize(slot.list, static_cast<int64_t>(list.size()));
  for (size_t i = 0; i < list.size(); ++i) {
    void* record = slot.element(slot.list, static_cast<int64_t>(i));
    for (const auto& [name, value] : list[i].items()) {
      const Key* key = find_key(table, name);
      CADRE_CHECK(key != nullptr, "unchecked key ", name);
      set_field(*key, record, value);
    }
  }
}

std::string bounds_text(const Allowed& allowed) {
  const bool low = allowed.minimum != -std::numeric_limits<double>::infinity();
  const bool high = allowed.maximum != std::numeric_limits<double>::infinity();
  std::string text;
  if (low) {
    text += fmt::format(", {} {}", allowed.above_minimum ? "above" : "at least", allowed.minimum);
  }
  if (high) {
    text += fmt::format("{} {} {}", low ? " and" : ",", allowed.below_maximum ? "below" : "at most",
                        allowed.maximum);
  }
  return text;
}

}  // namespace

const Key* Table::end() const {
  return keys + count;
}

Draft draft_of(const RunSpec& run) {
  Draft draft;
  draft.run = run;
  draft.tokenizer = run.tokenizer.value_or(TokenizerSource{});
  draft.gradient_checkpointing = run.training.recompute != Recompute::kNone;
  draft.granularity = run.training.recompute == Recompute::kSelective
                          ? Draft::Granularity::kSelective
                          : Draft::Granularity::kFull;
  return draft;
}

RunSpec run_of(const Draft& draft) {
  RunSpec run = draft.run;
  run.tokenizer.reset();
  if (draft.tokenizer != TokenizerSource{}) {
    run.tokenizer = draft.tokenizer;
  }
  run.training.recompute = !draft.gradient_checkpointing ? Recompute::kNone
                           : draft.granularity == Draft::Granularity::kSelective
                               ? Recompute::kSelective
                               : Recompute::kFull;
  return run;
}

const std::vector<const Key*>& all_keys() {
  static const std::vector<const Key*> keys = [] {
    std::vector<const Key*> all;
    const Table run = run_keys();
    const auto add = [&all](const Table& table, std::string_view section, bool inside) {
      for (const Key& key : table) {
        if (key.path.starts_with(section) == inside) {
          all.push_back(&key);
        }
      }
    };
    const auto is_top = [](const Key& key) { return key.path.find('.') == std::string_view::npos; };
    for (const Key& key : run) {
      if (is_top(key)) {
        all.push_back(&key);
      }
    }
    add(model_keys(), "model.", true);
    add(run, "tokenizer.", true);
    add(run, "data.", true);
    add(training_keys(), "training.", true);
    for (const std::string_view section : {"checkpoint.", "parallel.", "sample."}) {
      add(run, section, true);
    }
    return all;
  }();
  return keys;
}

const Key* find_key(std::string_view path) {
  static const std::unordered_map<std::string_view, const Key*> by_path = [] {
    std::unordered_map<std::string_view, const Key*> all;
    for (const Key* key : all_keys()) {
      CADRE_CHECK(all.emplace(key->path, key).second, "the schema has ", key->path, " twice");
    }
    return all;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

const Key* find_key(const Table& table, std::string_view path) {
  for (const Key& key : table) {
    if (key.path == path) {
      return &key;
    }
  }
  return nullptr;
}

const Synonym* find_synonym(std::string_view path) {
  for (const Synonym& synonym : all_synonyms()) {
    if (synonym.path == path) {
      return &synonym;
    }
  }
  return nullptr;
}

Json get_field(const Key& key, void* record) {
  const bool automatic = key.allowed.type == KeyType::kIntegerOrAuto;
  return std::visit(
      Overloaded{
          [&](int64_t* field) -> Json {
            return automatic && *field == 0 ? Json("auto") : Json(*field);
          },
          [](std::vector<std::string>* field) -> Json { return *field; },
          [](std::optional<int64_t>* field) -> Json {
            return field->has_value() ? Json(**field) : Json();
          },
          [](std::optional<double>* field) -> Json {
            return field->has_value() ? Json(**field) : Json();
          },
          [&](const EnumSlot& slot) -> Json { return name_of_choice(key, slot.get(slot.field)); },
          [&](const RecordsSlot& slot) -> Json { return get_records(*key.allowed.record, slot); },
          [](auto* field) -> Json { return *field; },
      },
      key.slot(record));
}

void set_field(const Key& key, void* record, const Json& value) {
  std::visit(
      Overloaded{
          [&](int64_t* field) { *field = value.is_string() ? 0 : value.get<int64_t>(); },
          [&](std::optional<int64_t>* field) { *field = value.get<int64_t>(); },
          [&](std::optional<double>* field) { *field = value.get<double>(); },
          [&](const EnumSlot& slot) {
            slot.set(slot.field, value_of_choice(key, value.get<std::string>()));
          },
          [&](const RecordsSlot& slot) { set_records(*key.allowed.record, slot, value); },
          [&](auto* field) { *field = value.get<std::remove_reference_t<decltype(*field)>>(); },
      },
      key.slot(record));
}

std::string allowed_text(const Allowed& allowed) {
  switch (allowed.type) {
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kInteger:
    case KeyType::kSeed:
      return "a whole number" + bounds_text(allowed);
    case KeyType::kIntegerOrAuto:
      return "auto or a whole number" + bounds_text(allowed);
    case KeyType::kIntegers:
      return "a whole number" + bounds_text(allowed) + ", or a list of them";
    case KeyType::kNumber:
      return "a number" + bounds_text(allowed);
    case KeyType::kText:
      return "a text";
    case KeyType::kInputPath:
    case KeyType::kOutputPath:
      return "a path";
    case KeyType::kTexts:
      return "a list of texts";
    case KeyType::kInputPaths:
      return allowed.not_empty ? "a list of at least one path" : "a list of paths";
    case KeyType::kRecords:
      return "a list of maps";
    case KeyType::kAnything:
      return "anything";
    case KeyType::kChoice:
      break;
  }
  std::vector<std::string_view> names;
  for (const ChoiceName& choice : allowed.choices) {
    names.push_back(choice.name);
  }
  return "one of " + listed(names);
}

}  // namespace cadre
