// UTF-8, one code point at a time. What is read here has been checked: see valid_utf8().

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cadre::data {

inline constexpr char32_t kReplacement = 0xFFFD;

struct CodePoint {
  char32_t value = 0;
  size_t size = 1;  // bytes
};

// The code point that begins at `at`; `text` is valid UTF-8 and `at` a boundary inside it.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [text, at](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  if (lead < 0xE0) {
    return {((lead & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  }
  if (lead < 0xF0) {
    return {((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  }
  return {
      ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F),
      4};
}

// Bytes of the character that begins with `lead`, in valid UTF-8.
constexpr size_t utf8_size(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// `value` is a Unicode scalar value.
inline void append_utf8(std::string& text, char32_t value) {
  const auto put = [&text](char32_t byte) {
    text.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

// How the bytes at the front of a text can be read.
struct Utf8Prefix {
  size_t size = 0;        // of the character, or of the maximal subpart that is not one
  bool valid = false;     // it is a whole character
  bool complete = false;  // false: more bytes could make it one
};

// `text` is not empty. A maximal subpart is what one U+FFFD replaces (Unicode 17, section 3.9;
// WHATWG Encoding Standard).
Utf8Prefix inspect_utf8(std::string_view text);

// `text` itself if it is valid UTF-8; otherwise a copy in `storage`, in which each maximal subpart
// of what is invalid has become U+FFFD.
std::string_view valid_utf8(std::string_view text, std::string& storage);

}  // namespace cadre::data
