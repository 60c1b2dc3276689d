// PostProcessor: the ids that tokenizer.json puts around a text, such as BOS and EOS.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cadre::data {

struct PostProcessor {
  std::vector<int32_t> before = {};
  std::vector<int32_t> behind = {};

  using IdOfToken = std::function<std::optional<int32_t>(std::string_view token)>;

  // TemplateProcessing (of single texts), ByteLevel, BertProcessing, RobertaProcessing and Sequence
  // of these; null is none. Any other type is refused by name.
  static Result<PostProcessor> parse(const Json& json, const IdOfToken& id_of_token);
};

}  // namespace cadre::data
