// Parses the part of a regular expression that names a set of code points.

#pragma once

#include <string_view>

#include "base/result.h"
#include "data/tokenizer/unicode.h"

namespace cadre::data {

CodePointSet inverted(const CodePointSet& set);
CodePointSet intersected(const CodePointSet& left, const CodePointSet& right);
CodePointSet with_both_ascii_cases(CodePointSet set);

// `at` stands on the backslash and is moved behind the escape.
Result<CodePointSet> parse_escape(std::string_view pattern, size_t& at);

// `at` stands on the [ and is moved behind the ].
Result<CodePointSet> parse_class(std::string_view pattern, size_t& at, int depth = 0);

}  // namespace cadre::data
