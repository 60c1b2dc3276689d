// Reading JSON that somebody else wrote: errors name the place, and nothing unbounded is allocated.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace cadre {

using Json = nlohmann::ordered_json;  // keeps the order of keys

struct JsonLimits {
  int depth_max = 64;      // deeper nesting is refused; a recursive reader would end on its stack
  int64_t first_line = 1;  // the number of the text's first line, for messages: of a line of JSONL
};

// Refuses, with `source` and line:column in the message: what is not JSON (RFC 8259), invalid
// UTF-8, a key that an object has twice, and nesting beyond the limit.
Result<Json> parse_json(std::string_view text, std::string_view source,
                        const JsonLimits& limits = {});

}  // namespace cadre
