#include "spec/reference.h"

#include <fmt/format.h>

#include <string_view>

#include "spec/deepspeed.h"
#include "spec/schema.h"

namespace cadre {
namespace {

constexpr std::string_view kIntroduction = R"(# Configuration

<!-- Written by `cadre config reference`; change src/spec/schema_*.cpp instead. -->

A run is one YAML file. `cadre config check FILE` reads it as `cadre train` does, and prints the
resolved configuration; `cadre train` writes the same into the run's folder as `run.yaml`, which is
a configuration itself.

```yaml
model: {model_type: llama, hidden_size: 256, intermediate_size: 688, num_hidden_layers: 6,
        num_attention_heads: 8, num_key_value_heads: 4}
tokenizer: {train: {vocab_size: 4096}}
data:
  sources:
    - paths: ["texts/*.txt"]
training: {steps: 500, micro_batch_size: 8, learning_rate: 1e-3}
```

The whole file is checked before anything starts. Every error is shown, with file, line and column,
the key, what was found and what is allowed; the exit code is 2, and nothing has been written.

## How values are read

The schema knows the type of every key, so a value never changes its type by how it looks:

- A number is written in decimal: `2e-5`, `1e3`, `1_000_000`, `.5`. A whole number may be written
  `1e3` or `2.0`. Hexadecimal, leading zeros (octal to some readers), infinity and NaN are refused,
  and so is a number in quotes.
- A boolean is `true` or `false`. `yes`, `no`, `on` and `off` are refused.
- A text is taken as it is written: `name: no` and `name: 1e3` are the texts "no" and "1e3".
- Where a list is allowed, one element may stand alone: `paths: corpus.txt`.
- `null` means not given, where a key need not be given.
- What is read (`model.from`, `tokenizer.from`, `paths`) is relative to the configuration's folder;
  what is written (`output`, `data.cache_directory`) to the working directory. Given with `--set`,
  all are relative to the working directory.
- Anchors, aliases, merge keys, tags, a second document, tabs in an indentation, a key that stands
  twice and invalid UTF-8 are refused, as is a file over 1 MiB or nested more than 32 deep.

## Overrides

`--set training.steps=100` says a key on the command line; `--set data.sources[0].weight=2` one of a
list, and the index after the last appends. Later settings win, over the file and over earlier ones.
A setting takes the place of the key's other spellings and of its alternative: `training.steps` that
of `training.epochs`. A text is taken as it is, everything else is read as YAML
(`--set 'data.validation=[{paths: held-out.txt}]'`), and `null` goes back to the default.

## Resuming

When a run is continued, each key is compared with the saved `run.yaml`. *Same* keys must have the
same value; for the others a change is reported in the log, or (*free*) not worth a word. The product
of `micro_batch_size`, `gradient_accumulation_steps` and the replicas must stay the same, too.
)";

std::string default_of(const Key& key, void* record) {
  if (!key.default_text.empty() || key.slot == nullptr) {
    return std::string(key.default_text);
  }
  const Json value = get_field(key, record);
  if (value.is_number_float()) {
    return fmt::format("`{}`", value.get<double>());
  }
  return fmt::format("`{}`", value.is_string() ? value.get<std::string>() : value.dump());
}

std::string_view name_of(OnResume on_resume) {
  switch (on_resume) {
    case OnResume::kRefused:
      return "same";
    case OnResume::kReported:
      return "reported";
    case OnResume::kFree:
      return "free";
  }
  return "";
}

std::string row(const Key& key, std::string_view name, void* record) {
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", name, allowed_text(key.allowed),
                     default_of(key, record), name_of(key.on_resume), key.description);
}

constexpr std::string_view kHead =
    "\n| key | allowed | default | on resume | meaning |\n| --- | --- | --- | --- | --- |\n";

void add_record(std::string& text, const Key& list) {
  // A list of one element, to ask for the defaults of an element.
  Draft draft;
  set_field(list, &draft, Json::array({Json::object()}));
  const auto slot = std::get<RecordsSlot>(list.slot(&draft));
  text += fmt::format("\nEach element of `{}`:\n{}", list.path, kHead);
  for (const Key& key : *list.allowed.record) {
    text += row(key, key.path, slot.element(slot.list, 0));
  }
}

// One table per section, in the order of the schema; lists of records follow their section.
std::string sections() {
  std::string text, section = "none";
  std::vector<const Key*> lists;
  Draft defaults;
  std::string unused;  // keys of config.json that have no meaning here
  const auto end_section = [&]() {
    if (!unused.empty()) {
      text += "\nAccepted without a meaning here, so that a config.json can be pasted: " + unused +
              ".\n";
      unused.clear();
    }
    for (const Key* list : lists) {
      add_record(text, *list);
    }
    lists.clear();
  };
  for (const Key* key : all_keys()) {
    const size_t dot = key->path.find('.');
    const std::string its(dot == std::string_view::npos ? "" : key->path.substr(0, dot));
    if (its != section) {
      end_section();
      section = its;
      text += fmt::format("\n## {}\n{}", its.empty() ? "Top level" : "`" + its + "`", kHead);
    }
    const std::string_view name = its.empty() ? key->path : key->path.substr(dot + 1);
    if (key->allowed.type == KeyType::kAnything) {
      unused += fmt::format("{}`{}`", unused.empty() ? "" : ", ", name);
      continue;
    }
    text += row(*key, name, &defaults);
    // `data.validation` is read like `data.sources`.
    if (key->allowed.record != nullptr && key->path != "data.validation") {
      lists.push_back(key);
    }
  }
  end_section();
  return text;
}

std::string synonyms() {
  std::string text =
      "\n## Other spellings\n\nThese mean the same as ours, and may stand beside them only with "
      "the same "
      "value. They are those\nof Hugging Face's TrainingArguments and of DeepSpeed.\n\n| spelling "
      "| "
      "means |\n| --- | --- |\n";
  for (const Synonym& synonym : all_synonyms()) {
    std::string_view remark;
    switch (synonym.kind) {
      case SynonymKind::kSame:
        break;
      case SynonymKind::kNegativeIsAbsent:
        remark = "; `-1` is not given";
        break;
      case SynonymKind::kPrecisionFlag:
        remark = ", if true; if false, any other";
        break;
      case SynonymKind::kScheduler:
        remark =
            ", and `training.min_lr_ratio: 0` unless that is given: such schedules end at zero";
        break;
    }
    text += fmt::format("| `{}` | `{}`{} |\n", synonym.path, synonym.canonical, remark);
  }
  text +=
      "\n`optimizer` also takes `adamw_torch`, `adamw_torch_fused` and their like, `lr_scheduler` "
      "also\n"
      "`constant_with_warmup`, `cosine_with_min_lr` and `wsd`. `gradient_checkpointing: true` "
      "alone is "
      "`full`.\n";
  return text;
}

std::string deepspeed() {
  std::string text =
      "\n## DeepSpeed files\n\n`--deepspeed FILE.json` merges such a file. `\"auto\"` leaves the "
      "configuration's value; a value that\ncontradicts the configuration is refused. What has no "
      "meaning "
      "here is named in a warning.\n\n| key of DeepSpeed | here |\n| --- | --- |\n";
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    text += key.canonical.empty() ? fmt::format("| `{}` | ignored: {} |\n", key.path, key.remark)
                                  : fmt::format("| `{}` | `{}` |\n", key.path, key.canonical);
  }
  return text;
}

}  // namespace

std::string configuration_reference() {
  return std::string(kIntroduction) + sections() + synonyms() + deepspeed();
}

}  // namespace cadre
