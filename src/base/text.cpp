#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cadre {
namespace {

// Letters to insert, remove, replace or swap with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1), above(b.size() + 1), above_that(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    above_that.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], above_that[j - 2] + 1);
      }
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : (i + 1 == words.size() ? " and " : ", ");
    text += words[i];
  }
  return text;
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {  // let the last star take one letter more
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string readable_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double amount = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  while (amount >= 1024.0 && unit + 1 < std::size(kUnits)) {
    amount /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::string readable_seconds(double seconds) {
  if (seconds < 60.0) {
    return fmt::format("{:.1f} s", seconds);
  }
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

size_t find_invalid_utf8(std::string_view text) {
  const auto at = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&at](size_t i) { return (at(i) & 0xC0u) == 0x80u; };
  size_t i = 0;
  while (i < text.size()) {
    const unsigned lead = at(i);
    const unsigned next = at(i + 1);
    if (lead < 0x80) {
      i += 1;
    } else if (lead >= 0xC2 && lead <= 0xDF && continues(i + 1)) {
      i += 2;
    } else if (lead >= 0xE0 && lead <= 0xEF && continues(i + 1) && continues(i + 2) &&
               (lead != 0xE0 || next >= 0xA0) && (lead != 0xED || next <= 0x9F)) {
      i += 3;  // neither an overlong form nor a surrogate
    } else if (lead >= 0xF0 && lead <= 0xF4 && continues(i + 1) && continues(i + 2) &&
               continues(i + 3) && (lead != 0xF0 || next >= 0x90) &&
               (lead != 0xF4 || next <= 0x8F)) {
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace cadre
