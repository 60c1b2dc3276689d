// One field of a line of JSON, without building the rest.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cadre::data {

// The text of the field of that name, if `line` is a JSON object that has it once, outside of any
// other object, and is nested no deeper than parse_json() allows. nullopt: parse_json() will tell
// why. Half the time of parse_json(), which reads everything twice.
std::optional<std::string> find_text_field(std::string_view line, std::string_view field);

}  // namespace cadre::data
