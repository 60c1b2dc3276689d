#include "data/tokenizer/pre_tokenizer.h"

#include <array>
#include <optional>
#include <utility>

#include "data/tokenizer/growth_budget.h"
#include "data/tokenizer/json_members.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/scanners.h"
#include "data/tokenizer/splitters.h"

namespace cadre::data {
namespace {

Status status_of(const JsonMembers& members) {
  return members.problem().empty() ? Status() : Status(input_error(members.problem()));
}

Status add_split(JsonMembers& members, PreTokenizer& result) {
  Result<Pattern> pattern = Pattern::parse(members);
  if (!pattern) {
    return pattern.error();
  }
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  const std::string name = members.required_text("behavior");
  const bool invert = members.flag("invert", false);
  std::optional<SplitBehavior> behavior;
  for (const auto& [known, value] : kBehaviors) {
    behavior = name == known ? value : behavior;
  }
  if (!behavior) {
    members.fail(concat(members.place(), ".behavior \"", name, "\" is not supported"));
  } else if (invert && *behavior == SplitBehavior::kRemoved) {
    behavior = SplitBehavior::kKept;
  } else if (invert && *behavior != SplitBehavior::kIsolated) {
    members.fail(concat(members.place(), ": behavior \"", name, "\" with invert is not supported"));
  }
  if (!members.problem().empty()) {
    return status_of(members);
  }
  const bool cuts_everywhere =
      *behavior == SplitBehavior::kIsolated || *behavior == SplitBehavior::kKept;
  std::unique_ptr<Splitter> splitter =
      cuts_everywhere ? make_scanner(pattern->regex_text()) : nullptr;
  if (splitter == nullptr) {
    splitter = make_pattern_splitter(std::move(*pattern), *behavior);
  }
  result.steps.push_back({.splitter = std::move(splitter)});
  return {};
}

Status add_regex(std::string_view regex, SplitBehavior behavior, PreTokenizer& result) {
  Result<Pattern> pattern = Pattern::of_regex(regex);
  CADRE_CHECK(pattern.ok(), regex);
  result.steps.push_back({.splitter = make_pattern_splitter(std::move(*pattern), behavior)});
  return {};
}

Status add_byte_level(JsonMembers& members, PreTokenizer& result) {
  if (members.flag("add_prefix_space", false)) {
    result.steps.push_back({.front = " "});
  }
  if (members.flag("use_regex", true)) {
    result.steps.push_back({.splitter = make_gpt2_scanner(true)});
  }
  result.byte_level = true;
  return status_of(members);
}

Status add_metaspace(JsonMembers& members, PreTokenizer& result) {
  const std::string mark = members.text("replacement").value_or("\xE2\x96\x81");
  // Files from before prepend_scheme have add_prefix_space.
  const bool prefix = members.flag("add_prefix_space", true);
  const std::string scheme = members.text("prepend_scheme").value_or(prefix ? "always" : "never");
  if (mark.empty() || (scheme != "always" && scheme != "never" && scheme != "first")) {
    members.fail(concat(members.place(), ": prepend_scheme \"", scheme, "\" or replacement \"",
                        mark, "\" is not supported"));
  }
  result.steps.push_back({.replaced = " ",
                          .replacement = mark,
                          .front = scheme == "never" ? "" : mark,
                          .front_at_start_only = scheme == "first"});
  if (members.flag("split", true) && members.problem().empty()) {
    // As Hugging Face's Rust library does; the npm package passes "split" over.
    result.steps.push_back({.splitter = make_pattern_splitter(Pattern::of_text(mark),
                                                              SplitBehavior::kMergedWithNext)});
  }
  return status_of(members);
}

Status add_steps(const Json& json, const std::string& place, GrowthBudget& budget,
                 PreTokenizer& result) {
  JsonMembers members(json, place);
  const std::string type = members.required_text("type");
  if (result.byte_level && members.problem().empty()) {
    return input_error(place, ": \"", type, "\" behind \"ByteLevel\" is not supported");
  }
  // Only Metaspace's replacement makes text longer by a factor.
  if (!budget.spend(members.text("replacement").value_or("").size())) {
    return input_error(place, ": too many steps, or they make a text too long");
  }
  if (type == "Split") {
    return add_split(members, result);
  }
  if (type == "ByteLevel") {
    return add_byte_level(members, result);
  }
  if (type == "Metaspace") {
    return add_metaspace(members, result);
  }
  if (type == "Digits") {
    return members.flag("individual_digits", false)
               ? add_regex(R"(\p{N})", SplitBehavior::kIsolated, result)
               : add_regex(R"(\p{N}+)", SplitBehavior::kIsolated, result);
  }
  if (type == "WhitespaceSplit") {
    return add_regex(R"(\s+)", SplitBehavior::kRemoved, result);
  }
  if (type == "Sequence") {
    const Json& list = members.array("pretokenizers");
    for (size_t i = 0; i < list.size(); ++i) {
      if (Status status =
              add_steps(list[i], concat(place, ".pretokenizers[", i, "]"), budget, result);
          !status) {
        return status;
      }
    }
    return status_of(members);
  }
  if (!members.problem().empty()) {
    return status_of(members);
  }
  return input_error(place, ": the type \"", type,
                     "\" is not supported (only ByteLevel, Split, Metaspace, Digits, "
                     "WhitespaceSplit and Sequence)");
}

}  // namespace

std::string_view PreTokenizerStep::rewrite(std::string_view piece, Where where,
                                           std::string& storage) const {
  const bool replaces = !replaced.empty() && piece.find(replaced) != std::string_view::npos;
  const bool may_prepend = !front.empty() && where != Where::kContinued &&
                           (where == Where::kAtStart || !front_at_start_only);
  if (!replaces && (!may_prepend || piece.starts_with(front))) {
    return piece;
  }
  storage.clear();
  for (size_t at = 0; at < piece.size();) {
    const size_t found = replaces ? piece.find(replaced, at) : std::string_view::npos;
    storage.append(piece.substr(at, found - at));
    if (found == std::string_view::npos) {
      break;
    }
    storage.append(replacement);
    at = found + replaced.size();
  }
  if (may_prepend && !storage.starts_with(front)) {
    storage.insert(0, front);
  }
  return storage;
}

Result<PreTokenizer> PreTokenizer::parse(const Json& json) {
  PreTokenizer result;
  if (!json.is_null()) {
    GrowthBudget budget;
    if (Status status = add_steps(json, "pre_tokenizer", budget, result); !status) {
      return status.error();
    }
  }
  return result;
}

}  // namespace cadre::data
