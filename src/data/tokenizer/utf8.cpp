#include "data/tokenizer/utf8.h"

#include <cstring>

namespace cadre::data {
namespace {

// Where the first byte of 0x80 or more stands, from `at` on.
size_t skip_ascii(std::string_view text, size_t at) {
  while (at + 8 <= text.size()) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) {
      break;
    }
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) {
    ++at;
  }
  return at;
}

}  // namespace

Utf8Prefix inspect_utf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {.size = 1, .valid = true, .complete = true};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {.size = 1, .valid = false, .complete = true};
  }
  const size_t size = utf8_size(lead);
  // The second byte's range keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) {
      return {.size = i, .valid = false, .complete = false};
    }
    if (byte(i) < low || byte(i) > high) {
      return {.size = i, .valid = false, .complete = true};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {.size = size, .valid = true, .complete = true};
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  size_t at = skip_ascii(text, 0);
  while (at < text.size()) {
    const Utf8Prefix prefix = inspect_utf8(text.substr(at));
    if (!prefix.valid) {
      break;
    }
    at = skip_ascii(text, at + prefix.size);
  }
  if (at >= text.size()) {
    return text;
  }
  storage.assign(text.substr(0, at));
  while (at < text.size()) {
    const Utf8Prefix prefix = inspect_utf8(text.substr(at));
    if (prefix.valid) {
      storage.append(text.substr(at, prefix.size));
    } else {
      append_utf8(storage, kReplacement);
    }
    at += prefix.size;
  }
  return storage;
}

}  // namespace cadre::data
