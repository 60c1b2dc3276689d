// The one schema of a configuration, as data: every key with its type, bounds, default, meaning and
// what happens to it on resume. Reading (read.h), printing (print.h), comparing (resume.h) and
// docs/configuration.md (reference.h) all walk these tables.
//
// To add a key: a field in the plain struct, a row in a table of schema_*.cpp.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/json.h"
#include "spec/run.h"

namespace cadre {

// A RunSpec as it is written: the few fields whose keys are cut differently stand beside it.
struct Draft {
  enum class Granularity { kSelective, kFull };

  RunSpec run;
  TokenizerSource tokenizer;
  bool gradient_checkpointing = false;
  Granularity granularity = Granularity::kFull;
};

Draft draft_of(const RunSpec& run);
RunSpec run_of(const Draft& draft);

// Access to one field of a record whose type the table does not know.
struct EnumSlot {
  void* field;
  int (*get)(const void* field);
  void (*set)(void* field, int value);
};
struct RecordsSlot {
  void* list;
  int64_t (*size)(const void* list);
  void (*resize)(void* list, int64_t size);
  void* (*element)(void* list, int64_t index);
};
using Slot =
    std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::optional<int64_t>*,
                 std::optional<double>*, std::vector<std::string>*, EnumSlot, RecordsSlot>;

enum class KeyType {
  kBoolean,
  kInteger,
  kIntegerOrAuto,  // auto is 0
  kSeed,
  kNumber,
  kText,
  kInputPath,   // made absolute: relative to the configuration's folder
  kOutputPath,  // made absolute: relative to the working directory
  kChoice,
  kTexts,
  kInputPaths,
  kIntegers,  // one, or a list of them
  kRecords,
  kAnything,  // a key of config.json without a meaning here
};

struct ChoiceName {
  std::string_view name;
  int value;  // the first name of a value is the one that is printed; the others are accepted
};

struct Key;
struct Table {
  const Key* keys;
  size_t count;

  const Key* begin() const { return keys; }
  const Key* end() const;
};

// What a key may hold.
struct Allowed {
  KeyType type = KeyType::kText;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;  // the minimum itself is not allowed
  bool below_maximum = false;
  std::span<const ChoiceName> choices = {};
  const Table* record = nullptr;  // the keys of each element, of a list of records
  bool not_empty = false;         // of a list
};

enum class OnResume {
  kRefused,   // a run that is continued must have the same value
  kReported,  // may change; the log says so
  kFree,      // may change without a word
};

struct Key {
  std::string_view path;  // "training.steps"; within a record: "weight"
  Allowed allowed;
  Slot (*slot)(void* record);  // nullptr: a key of config.json, kept in Draft::run.model.config
  OnResume on_resume;
  std::string_view description;        // one sentence
  std::string_view default_text = {};  // instead of the default of the struct's field
};

enum class SynonymKind {
  kSame,
  kNegativeIsAbsent,  // max_steps: -1
  kPrecisionFlag,     // bf16: true
  kScheduler,         // Hugging Face's schedules end at zero unless told otherwise
};

// Another spelling, of Hugging Face's TrainingArguments or DeepSpeed, that means the same.
struct Synonym {
  std::string_view path;
  std::string_view canonical;
  SynonymKind kind = SynonymKind::kSame;
};

// At most one key of a pair may be given; --set of one takes the place of the other.
struct Alternatives {
  std::string_view first;
  std::string_view second;
};

// All keys, section by section, in the order in which they are printed.
const std::vector<const Key*>& all_keys();
std::span<const Synonym> all_synonyms();
std::span<const Alternatives> all_alternatives();

Table run_keys();  // name, output, threads, tokenizer, data, checkpoint, parallel, sample
Table training_keys();
Table model_keys();

const Key* find_key(std::string_view path);
const Key* find_key(const Table& table, std::string_view path);
const Synonym* find_synonym(std::string_view path);

// The value of a field, null if absent; and back. Lists of records become arrays of flat objects.
// The value given to set_field() has passed the key's checks.
Json get_field(const Key& key, void* record);
void set_field(const Key& key, void* record, const Json& value);

// "a whole number, at least 1"
std::string allowed_text(const Allowed& allowed);

// Builders of the rows.
namespace schema {

constexpr Allowed boolean() {
  return {.type = KeyType::kBoolean};
}
constexpr Allowed text() {
  return {.type = KeyType::kText};
}
constexpr Allowed texts() {
  return {.type = KeyType::kTexts};
}
constexpr Allowed seed() {
  return {.type = KeyType::kSeed, .minimum = 0};
}
// Counts of steps and the like: more than any run has, and sums of a few still fit.
constexpr double kCountMax = 1e15;
constexpr Allowed at_least(double minimum) {
  return {.type = KeyType::kInteger, .minimum = minimum, .maximum = kCountMax};
}
// A size of a tensor: what 32 bits index.
constexpr Allowed extent(double minimum) {
  return {
      .type = KeyType::kInteger, .minimum = minimum, .maximum = static_cast<double>(kExtentMax)};
}
constexpr Allowed whole(double minimum, double maximum) {
  return {.type = KeyType::kInteger, .minimum = minimum, .maximum = maximum};
}
constexpr Allowed positive() {
  return {.type = KeyType::kNumber, .minimum = 0, .above_minimum = true};
}
constexpr Allowed not_negative() {
  return {.type = KeyType::kNumber, .minimum = 0};
}
constexpr Allowed share() {
  return {.type = KeyType::kNumber, .minimum = 0, .maximum = 1};
}
constexpr Allowed positive_share() {
  return {.type = KeyType::kNumber, .minimum = 0, .maximum = 1, .above_minimum = true};
}
constexpr Allowed below_one() {
  return {.type = KeyType::kNumber, .minimum = 0, .maximum = 1, .below_maximum = true};
}
constexpr Allowed between(double minimum, double maximum) {
  return {.type = KeyType::kNumber, .minimum = minimum, .maximum = maximum};
}
constexpr Allowed choice(std::span<const ChoiceName> names) {
  return {.type = KeyType::kChoice, .choices = names};
}
constexpr Allowed records(const Table* table) {
  return {.type = KeyType::kRecords, .record = table};
}

template <typename Value, typename Class>
Class class_of(Value Class::*);

template <typename Value>
Slot slot_of(Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return EnumSlot{
        .field = &value,
        .get = [](const void* at) { return static_cast<int>(*static_cast<const Value*>(at)); },
        .set = [](void* at, int to) { *static_cast<Value*>(at) = static_cast<Value>(to); }};
  } else if constexpr (std::is_constructible_v<Slot, Value*>) {
    return Slot(&value);
  } else {  // a list of records
    return RecordsSlot{
        .list = &value,
        .size =
            [](const void* at) {
              return static_cast<int64_t>(static_cast<const Value*>(at)->size());
            },
        .resize = [](void* at,
                     int64_t size) { static_cast<Value*>(at)->resize(static_cast<size_t>(size)); },
        .element = [](void* at, int64_t i) -> void* {
          return &(*static_cast<Value*>(at))[static_cast<size_t>(i)];
        }};
  }
}

// field<&Draft::run, &RunSpec::training, &TrainingSpec::seed>
template <auto First, auto... Rest>
Slot field(void* record) {
  auto& owner = *static_cast<decltype(class_of(First))*>(record);
  return slot_of(((owner.*First).*....*Rest));
}

}  // namespace schema

}  // namespace cadre
