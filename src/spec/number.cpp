#include "spec/number.h"

#include <charconv>
#include <cmath>
#include <string>

namespace cadre {
namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// Without underscores and the sign `+`, which std::from_chars does not know. Refuses what other
// readers of YAML take for something else.
Result<std::string> plain_digits(std::string_view text) {
  std::string plain;
  size_t begin = 0;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    plain = text[0] == '-' ? "-" : "";
    begin = 1;
  }
  const std::string_view digits = text.substr(begin);
  if (digits.size() > 1 && digits[0] == '0' && (is_digit(digits[1]) || digits[1] == '_')) {
    return input_error("with a leading zero, which some readers take for octal; write it without");
  }
  if (digits.size() > 1 && digits[0] == '0' && !is_digit(digits[1]) && digits[1] != '.' &&
      digits[1] != 'e' && digits[1] != 'E') {
    return input_error("which is not decimal; write the number in decimal digits");
  }
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      plain += digits[i];
      continue;
    }
    const bool between =
        i > 0 && i + 1 < digits.size() && is_digit(digits[i - 1]) && is_digit(digits[i + 1]);
    if (!between) {
      return input_error("with an underscore that is not between two digits");
    }
  }
  return plain;
}

template <typename Whole>
Result<Whole> parse_as(std::string_view text) {
  const Result<std::string> plain = plain_digits(text);
  if (!plain.ok()) {
    return plain.error();
  }
  Whole whole = 0;
  const char* end = plain->data() + plain->size();
  const auto [stop, code] = std::from_chars(plain->data(), end, whole);
  if (code == std::errc() && stop == end) {
    return whole;
  }
  const Result<double> number = parse_number(text);
  if (!number.ok()) {
    return number.error();
  }
  constexpr double kExactMax = 9007199254740992.0;  // 2^53: beyond it a double skips whole numbers
  if (*number != std::floor(*number)) {
    return input_error("which is not whole");
  }
  if (std::abs(*number) > kExactMax) {
    return input_error("which is too large");
  }
  if (*number < 0 && !std::is_signed_v<Whole>) {
    return input_error("which is negative");
  }
  return static_cast<Whole>(*number);
}

}  // namespace

Result<double> parse_number(std::string_view text) {
  const Result<std::string> plain = plain_digits(text);
  if (!plain.ok()) {
    return plain.error();
  }
  double number = 0;
  const char* end = plain->data() + plain->size();
  const auto [stop, code] = std::from_chars(plain->data(), end, number, std::chars_format::general);
  if (code == std::errc::result_out_of_range) {
    return input_error("which is beyond the range of a double");
  }
  if (code != std::errc() || stop != end) {
    return input_error("");
  }
  if (!std::isfinite(number)) {
    return input_error("which is not finite");
  }
  return number;
}

Result<int64_t> parse_whole(std::string_view text) {
  return parse_as<int64_t>(text);
}
Result<uint64_t> parse_unsigned(std::string_view text) {
  return parse_as<uint64_t>(text);
}

}  // namespace cadre
