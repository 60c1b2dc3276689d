// The numbers that a configuration may hold, written as text.

#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace cadre {

// 1000, 1_000, 1e3, 2e-5, .5, -1.5E+3. The error says what else the text is: octal, hexadecimal, …
Result<double> parse_number(std::string_view text);

// The same, if it is whole: 1000, 1_000, 1e3, 2.0. Exact up to 2^64 when written in digits.
Result<int64_t> parse_whole(std::string_view text);
Result<uint64_t> parse_unsigned(std::string_view text);

}  // namespace cadre
