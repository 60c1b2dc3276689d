// Where each key of a JSON text stands, for messages about a file that has been parsed.

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace cadre {

// `text` is valid JSON. "zero_optimization.stage" -> "ds.json:6:14": the place of the value.
// Elements of lists are not listed.
std::map<std::string, std::string> json_places(std::string_view text, std::string_view source);

}  // namespace cadre
