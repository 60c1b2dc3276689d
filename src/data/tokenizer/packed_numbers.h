// Reads the numbers that tools/unicode_tables/generate.mjs packs into text.

#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace cadre::data {

class PackedNumbers {
 public:
  explicit PackedNumbers(std::string_view packed) : packed_(packed) {}

  bool at_end() const { return at_ == packed_.size(); }

  // Digits are 0-9 A-Z a-z - _ ; the lowest five bits come first, and a digit of 32 or more says
  // that another follows.
  uint32_t next() {
    uint32_t value = 0;
    for (int shift = 0;; shift += 5) {
      CADRE_CHECK(at_ < packed_.size() && shift < 32, "a packed table is cut off");
      const uint32_t digit = digit_of(packed_[at_++]);
      value |= (digit & 31) << shift;
      if (digit < 32) {
        return value;
      }
    }
  }

  int32_t next_signed() {
    const uint32_t value = next();
    const auto half = static_cast<int32_t>(value >> 1);
    return (value & 1) != 0 ? -half - 1 : half;
  }

 private:
  static uint32_t digit_of(char letter) {
    const auto from = [letter](char first) { return static_cast<uint32_t>(letter - first); };
    if (letter >= '0' && letter <= '9') {
      return from('0');
    }
    if (letter >= 'A' && letter <= 'Z') {
      return 10 + from('A');
    }
    if (letter >= 'a' && letter <= 'z') {
      return 36 + from('a');
    }
    return letter == '-' ? 62 : 63;
  }

  std::string_view packed_;
  size_t at_ = 0;
};

}  // namespace cadre::data
