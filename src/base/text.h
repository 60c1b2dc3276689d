// Small operations on text that several folders need.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cadre {

// The candidate closest to `word` by edit distance, if at most a third of its letters differ;
// empty if none is near. For "did you mean".
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// "a, b and c"
std::string listed(const std::vector<std::string_view>& words);

// `*` any letters, `?` one; the whole of `text` must match.
bool matches_glob(std::string_view pattern, std::string_view text);

// "1.4 GiB", "17.5 MiB", "640 B"
std::string readable_bytes(int64_t bytes);

// "2 h 05 min", "3 min 12 s", "8.4 s"
std::string readable_seconds(double seconds);

// Where the first malformed sequence of `text` begins, or npos. (Unicode 15, table 3-7)
size_t find_invalid_utf8(std::string_view text);

}  // namespace cadre
