// shown(): a name that somebody else chose, made fit for a message.

#pragma once

#include <string>
#include <string_view>

namespace cadre {

// In double quotes; control characters become '?', and of a very long name the start is shown.
inline std::string shown(std::string_view name) {
  constexpr size_t kShown = 200;
  std::string text = "\"";
  for (const char letter : name.substr(0, kShown)) {
    const auto code = static_cast<unsigned char>(letter);
    text += code < 0x20 || code == 0x7F ? '?' : letter;
  }
  return text + (name.size() > kShown ? "...\"" : "\"");
}

}  // namespace cadre
