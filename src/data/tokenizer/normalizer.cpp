#include "data/tokenizer/normalizer.h"

#include <optional>
#include <utility>

#include "data/tokenizer/growth_budget.h"
#include "data/tokenizer/json_members.h"
#include "data/tokenizer/normalization.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

class Form final : public NormalizerStep {
 public:
  explicit Form(const NormalizationForm& form) : form_(form) {}
  std::string_view apply(std::string_view text, std::string& storage) const override {
    return normalized(text, form_, storage);
  }

 private:
  NormalizationForm form_;
};

class Lowercase final : public NormalizerStep {
 public:
  std::string_view apply(std::string_view text, std::string& storage) const override {
    storage.clear();
    append_lower_case(text, storage);
    return storage;
  }
};

class StripAccents final : public NormalizerStep {
 public:
  std::string_view apply(std::string_view text, std::string& storage) const override {
    const CategoryTable& table = CategoryTable::get();
    storage.clear();
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if ((table.of(point.value) & kMark) == 0) {
        storage.append(text.substr(at, point.size));
      }
      at += point.size;
    }
    return storage;
  }
};

class Strip final : public NormalizerStep {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  std::string_view apply(std::string_view text, std::string&) const override {
    if (left_) {
      text.remove_prefix(leading_white(text));
    }
    if (right_) {
      text.remove_suffix(trailing_white(text));
    }
    return text;
  }

 private:
  bool left_;
  bool right_;
};

class Prepend final : public NormalizerStep {
 public:
  explicit Prepend(std::string front) : front_(std::move(front)) {}
  std::string_view apply(std::string_view text, std::string& storage) const override {
    if (text.empty()) {
      return text;
    }
    storage = front_;
    storage.append(text);
    return storage;
  }
  bool prepends() const override { return true; }

 private:
  std::string front_;
};

class Replace final : public NormalizerStep {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string_view apply(std::string_view text, std::string& storage) const override {
    return pattern_.replace_all(text, content_, storage);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

using Steps = std::vector<std::unique_ptr<NormalizerStep>>;

Status add_steps(const Json& json, const std::string& place, GrowthBudget& budget, Steps& steps) {
  JsonMembers members(json, place);
  const std::string type = members.required_text("type");
  size_t growth = 1;
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    steps.push_back(std::make_unique<Form>(
        NormalizationForm{.compose = type.back() == 'C', .compatibility = type.size() == 4}));
  } else if (type == "Lowercase") {
    steps.push_back(std::make_unique<Lowercase>());
  } else if (type == "StripAccents") {
    steps.push_back(std::make_unique<StripAccents>());
  } else if (type == "Strip") {
    steps.push_back(std::make_unique<Strip>(members.flag("strip_left", false),
                                            members.flag("strip_right", false)));
  } else if (type == "Prepend") {
    const std::string front = members.required_text("prepend");
    growth = 1 + front.size();
    steps.push_back(std::make_unique<Prepend>(front));
  } else if (type == "Replace") {
    Result<Pattern> pattern = Pattern::parse(members);
    if (!pattern) {
      return pattern.error();
    }
    const std::string content = members.required_text("content");
    growth = content.size();
    steps.push_back(std::make_unique<Replace>(std::move(*pattern), content));
  } else if (type == "Sequence") {
    const Json& list = members.array("normalizers");
    for (size_t i = 0; i < list.size(); ++i) {
      if (Status status = add_steps(list[i], concat(place, ".normalizers[", i, "]"), budget, steps);
          !status) {
        return status;
      }
    }
  } else if (members.problem().empty()) {
    return input_error(place, ": the type \"", type,
                       "\" is not supported (only NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
                       "Strip, Prepend, Replace and Sequence)");
  }
  if (!budget.spend(growth)) {
    members.fail(concat(place, ": too many steps, or they make a text too long"));
  }
  return members.problem().empty() ? Status() : Status(input_error(members.problem()));
}

}  // namespace

Result<Normalizer> Normalizer::parse(const Json& json) {
  Normalizer normalizer;
  if (!json.is_null()) {
    GrowthBudget budget;
    if (Status status = add_steps(json, "normalizer", budget, normalizer.steps_); !status) {
      return status.error();
    }
  }
  return normalizer;
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage,
                                   bool prepend) const {
  std::string scratch;
  for (const auto& step : steps_) {
    if (step->prepends() && !prepend) {
      continue;
    }
    const std::string_view after = step->apply(text, scratch);
    if (after.data() == scratch.data()) {  // the result must not view what the next step overwrites
      storage.swap(scratch);
      text = storage;
    } else {
      text = after;
    }
  }
  return text;
}

}  // namespace cadre::data
