#include "data/tokenizer/regex_class.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

constexpr int kDepthMax = 32;

CodePointSet single(char32_t value) {
  return {{value, value}};
}

CodePointSet property(std::string_view name) {
  CodePointSet set;
  CADRE_CHECK(property_set(name, set), name);
  return set;
}

Error refused(std::string_view pattern, size_t at, std::string_view what) {
  return input_error("regular expression \"", pattern, "\": ", what, " at byte ", at);
}

// Up to `digits_max` hexadecimal digits at `at`, which is moved behind them.
Result<CodePointSet> parse_hexadecimal(std::string_view pattern, size_t& at, size_t digits_max) {
  uint32_t value = 0;
  size_t digits = 0;
  for (; digits < digits_max && at < pattern.size(); ++digits, ++at) {
    const char letter = pattern[at];
    const bool is_digit = letter >= '0' && letter <= '9';
    const char lower = static_cast<char>(letter | 0x20);
    if (!is_digit && (lower < 'a' || lower > 'f')) {
      break;
    }
    value = value * 16 + static_cast<uint32_t>(is_digit ? letter - '0' : lower - 'a' + 10);
  }
  if (digits == 0 || value >= kCodePoints) {
    return refused(pattern, at, "no hexadecimal number of a code point");
  }
  return single(value);
}

// \x41, \x{1F600}, A
Result<CodePointSet> parse_numbered(std::string_view pattern, size_t& at, char letter) {
  if (at >= pattern.size() || pattern[at] != '{') {
    return parse_hexadecimal(pattern, at, letter == 'x' ? 2 : 4);
  }
  ++at;
  Result<CodePointSet> set = parse_hexadecimal(pattern, at, 8);
  if (set && (at >= pattern.size() || pattern[at] != '}')) {
    return refused(pattern, at, "no } behind a hexadecimal number");
  }
  ++at;
  return set;
}

// \p{L}, \P{L}, \p{^L}, \pL
Result<CodePointSet> parse_property(std::string_view pattern, size_t& at, bool negated) {
  std::string_view name = pattern.substr(at, 1);
  if (name == "{") {
    const size_t end = pattern.find('}', at);
    if (end == std::string_view::npos) {
      return refused(pattern, at, "no } behind a property");
    }
    name = pattern.substr(at + 1, end - at - 1);
    at = end + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
  } else {
    at += name.size();
  }
  CodePointSet set;
  if (!property_set(name, set)) {
    return refused(
        pattern, at,
        concat("the property \"", name, "\" is not supported (only ", known_properties(), ")"));
  }
  return negated ? inverted(set) : set;
}

CodePointSet word_set() {
  CodePointSet set = property("Alphabetic");
  for (const std::string_view name : {"M", "Nd", "Pc"}) {
    set = united(set, property(name));
  }
  return set;
}

}  // namespace

CodePointSet inverted(const CodePointSet& set) {
  CodePointSet rest;
  char32_t next = 0;
  for (const CodePointRange& range : set) {
    if (range.first > next) {
      rest.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next < kCodePoints) {
    rest.push_back({next, kCodePoints - 1});
  }
  return rest;
}

CodePointSet intersected(const CodePointSet& left, const CodePointSet& right) {
  return inverted(united(inverted(left), inverted(right)));
}

CodePointSet with_both_ascii_cases(CodePointSet set) {
  CodePointSet added;
  for (const CodePointRange& range : set) {
    for (char32_t value = range.first; value <= std::min<char32_t>(range.last, 'z'); ++value) {
      const char32_t lower = value | 0x20;
      if (lower >= 'a' && lower <= 'z') {
        added.push_back({value ^ 0x20, value ^ 0x20});
      }
    }
  }
  return united(set, added);
}

Result<CodePointSet> parse_escape(std::string_view pattern, size_t& at) {
  const size_t start = at++;
  if (at >= pattern.size()) {
    return refused(pattern, start, "nothing behind a backslash");
  }
  const CodePoint escaped = code_point_at(pattern, at);
  at += escaped.size;
  switch (escaped.value) {
    case 'p':
    case 'P':
      return parse_property(pattern, at, escaped.value == 'P');
    case 'x':
    case 'u':
      return parse_numbered(pattern, at, static_cast<char>(escaped.value));
    case 's':
      return property("White_Space");
    case 'S':
      return inverted(property("White_Space"));
    case 'd':
      return property("Nd");
    case 'D':
      return inverted(property("Nd"));
    case 'w':
      return word_set();
    case 'W':
      return inverted(word_set());
    case 'n':
      return single('\n');
    case 'r':
      return single('\r');
    case 't':
      return single('\t');
    case 'f':
      return single('\f');
    case 'v':
      return single('\v');
    default:
      break;
  }
  const char32_t lower = escaped.value | 0x20;
  const bool is_digit = escaped.value >= '0' && escaped.value <= '9';
  if (escaped.value < 128 && (is_digit || (lower >= 'a' && lower <= 'z'))) {
    return refused(pattern, start,
                   concat("\\", static_cast<char>(escaped.value), " is not supported"));
  }
  return single(escaped.value);
}

Result<CodePointSet> parse_class(std::string_view pattern, size_t& at, int depth) {
  const size_t start = at++;
  if (depth == kDepthMax) {
    return refused(pattern, start, "classes nested too deep");
  }
  const bool negated = at < pattern.size() && pattern[at] == '^';
  at += negated ? 1 : 0;
  const size_t first = at;
  CodePointSet operand;       // of &&
  CodePointSet intersection;  // of the operands before
  bool intersecting = false;
  const auto whole = [&] { return intersecting ? intersected(intersection, operand) : operand; };
  for (;;) {
    if (at >= pattern.size()) {
      return refused(pattern, start, "a [ without ]");
    }
    if (pattern[at] == ']' && at > first) {
      ++at;
      return negated ? inverted(whole()) : whole();
    }
    if (pattern.substr(at, 2) == "&&") {
      intersection = whole();
      intersecting = true;
      operand.clear();
      at += 2;
      continue;
    }
    if (pattern.substr(at, 2) == "[:") {
      return refused(pattern, at, "POSIX classes ([:name:]) are not supported");
    }
    Result<CodePointSet> item = CodePointSet{};
    if (pattern[at] == '[') {
      item = parse_class(pattern, at, depth + 1);
    } else if (pattern[at] == '\\') {
      item = parse_escape(pattern, at);
    } else {
      const CodePoint point = code_point_at(pattern, at);
      item = single(point.value);
      at += point.size;
    }
    if (!item) {
      return item.error();
    }
    const bool is_range = at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']' &&
                          pattern.substr(at + 1, 2) != "&&";
    if (is_range) {
      const size_t dash = at++;
      Result<CodePointSet> last = CodePointSet{};
      if (pattern[at] == '\\') {
        last = parse_escape(pattern, at);
      } else {
        const CodePoint point = code_point_at(pattern, at);
        last = single(point.value);
        at += point.size;
      }
      if (!last) {
        return last.error();
      }
      const auto is_single = [](const CodePointSet& set) {
        return set.size() == 1 && set[0].first == set[0].last;
      };
      if (!is_single(*item) || !is_single(*last) || (*item)[0].first > (*last)[0].first) {
        return refused(pattern, dash, "a range that does not go from one character up to another");
      }
      item = CodePointSet{{(*item)[0].first, (*last)[0].first}};
    }
    operand = united(operand, *item);
  }
}

}  // namespace cadre::data
