#include "data/tokenizer/unicode.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>

#include "base/check.h"
#include "data/tokenizer/packed_numbers.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

#include "data/tokenizer/unicode_categories.inc"

constexpr size_t kCategories = 30;
constexpr std::array<std::string_view, kCategories> kCategoryNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co",
};
constexpr uint8_t kWhiteFlag = 0x20;

struct NamedRanges {
  std::string_view name;
  std::string_view packed;
};
constexpr std::array<NamedRanges, 17> kNamedSets = {{
    {"Alphabetic", kAlphabetic},
    {"Arabic", kArabic},
    {"Bengali", kBengali},
    {"Cyrillic", kCyrillic},
    {"Devanagari", kDevanagari},
    {"Greek", kGreek},
    {"Han", kHan},
    {"Hangul", kHangul},
    {"Hebrew", kHebrew},
    {"Hiragana", kHiragana},
    {"Katakana", kKatakana},
    {"Khmer", kKhmer},
    {"Lao", kLao},
    {"Latin", kLatin},
    {"Myanmar", kMyanmar},
    {"Tamil", kTamil},
    {"Thai", kThai},
}};

CodePointSet unpack_ranges(std::string_view packed) {
  CodePointSet set;
  char32_t at = 0;
  for (PackedNumbers numbers(packed); !numbers.at_end();) {
    const char32_t first = at + numbers.next();
    at = first;
    if (!numbers.at_end()) {
      at += numbers.next();
    } else {
      at = kCodePoints;
    }
    set.push_back({first, at - 1});
  }
  return set;
}

bool contains(const CodePointSet& set, char32_t value) {
  const auto after = std::upper_bound(
      set.begin(), set.end(), value,
      [](char32_t left, const CodePointRange& range) { return left < range.first; });
  return after != set.begin() && value <= std::prev(after)->last;
}

// White_Space is the separators and seven controls (PropList.txt); it has not changed since 6.3.
bool is_white(char32_t value, uint8_t category) {
  const bool separator = category >= static_cast<uint8_t>(Category::kZs) &&
                         category <= static_cast<uint8_t>(Category::kZp);
  return separator || (value >= 0x09 && value <= 0x0D) || value == 0x85;
}

// The ranges of each category; the last entry is White_Space.
const std::vector<CodePointSet>& category_ranges() {
  static const std::vector<CodePointSet> sets = [] {
    const CategoryTable& table = CategoryTable::get();
    std::vector<CodePointSet> ranges(kCategories + 1);
    const auto add = [](CodePointSet& set, char32_t value) {
      if (!set.empty() && set.back().last + 1 == value) {
        set.back().last = value;
      } else {
        set.push_back({value, value});
      }
    };
    for (char32_t value = 0; value < kCodePoints; ++value) {
      const Categories bits = table.of(value);
      add(ranges[static_cast<size_t>(std::countr_zero(bits))], value);
      if ((bits & kWhite) != 0) {
        add(ranges.back(), value);
      }
    }
    return ranges;
  }();
  return sets;
}

struct LetterCase {
  std::map<char32_t, char32_t> lower;
  CodePointSet cased = unpack_ranges(kCased);
  CodePointSet ignorable = unpack_ranges(kCaseIgnorable);

  LetterCase() {
    char32_t point = 0;
    int32_t offset = 0;
    for (PackedNumbers numbers(kLowerCase); !numbers.at_end();) {
      point += numbers.next();
      offset += numbers.next_signed();
      lower[point] = static_cast<char32_t>(static_cast<int32_t>(point) + offset);
    }
  }

  static const LetterCase& get() {
    static const LetterCase letter_case;
    return letter_case;
  }
};

// Unicode's Final_Sigma: a cased letter before and none behind, ignorable characters looked
// through.
bool is_final_sigma(const std::vector<char32_t>& points, size_t at) {
  const LetterCase& table = LetterCase::get();
  size_t before = at;
  while (before > 0 && contains(table.ignorable, points[before - 1])) {
    --before;
  }
  size_t behind = at + 1;
  while (behind < points.size() && contains(table.ignorable, points[behind])) {
    ++behind;
  }
  return before > 0 && contains(table.cased, points[before - 1]) &&
         !(behind < points.size() && contains(table.cased, points[behind]));
}

}  // namespace

CategoryTable::CategoryTable() {
  std::vector<uint8_t> whole(kCodePoints);
  char32_t at = 0;
  for (PackedNumbers numbers(kCategoryRuns); !numbers.at_end();) {
    const uint32_t run = numbers.next();
    const auto category = static_cast<uint8_t>(run & 31);
    for (const char32_t end = at + (run >> 5) + 1; at < end; ++at) {
      whole[at] = static_cast<uint8_t>(category | (is_white(at, category) ? kWhiteFlag : 0));
    }
  }
  CADRE_CHECK(at == kCodePoints, "the category table does not cover Unicode");
  std::map<std::string_view, uint8_t> known;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    const uint8_t* page = whole.data() + 256 * block;
    const std::string_view bytes(reinterpret_cast<const char*>(page), 256);
    const auto [place, is_new] = known.try_emplace(bytes, static_cast<uint8_t>(known.size()));
    CADRE_CHECK(known.size() <= 256, "the category table needs wider block numbers");
    blocks_[block] = place->second;
    if (is_new) {
      pages_.insert(pages_.end(), page, page + 256);
    }
  }
  for (size_t entry = 0; entry < bits_.size(); ++entry) {
    bits_[entry] = (Categories{1} << (entry & 31)) | ((entry & kWhiteFlag) != 0 ? kWhite : 0);
  }
}

const CategoryTable& CategoryTable::get() {
  static const CategoryTable table;
  return table;
}

CodePointSet united(const CodePointSet& left, const CodePointSet& right) {
  CodePointSet both = left;
  both.insert(both.end(), right.begin(), right.end());
  std::sort(both.begin(), both.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  CodePointSet set;
  for (const CodePointRange& range : both) {
    if (!set.empty() && range.first <= set.back().last + 1) {
      set.back().last = std::max(set.back().last, range.last);
    } else {
      set.push_back(range);
    }
  }
  return set;
}

bool property_set(std::string_view name, CodePointSet& set) {
  set.clear();
  if (name == "White_Space" || name == "space") {
    set = category_ranges().back();
    return true;
  }
  for (size_t category = 0; category < kCategories; ++category) {
    const std::string_view own = kCategoryNames[category];
    if (name == own || (name.size() == 1 && name[0] == own[0])) {
      set = united(set, category_ranges()[category]);
    }
  }
  if (!set.empty()) {
    return true;
  }
  for (const std::string_view prefix : {"Script=", "sc="}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
    }
  }
  const auto named = std::find_if(kNamedSets.begin(), kNamedSets.end(),
                                  [name](const NamedRanges& known) { return known.name == name; });
  if (named == kNamedSets.end()) {
    return false;
  }
  set = unpack_ranges(named->packed);
  return true;
}

std::string known_properties() {
  std::string text = "the general categories, White_Space";
  for (const NamedRanges& named : kNamedSets) {
    text += concat(", ", named.name);
  }
  return text;
}

void append_lower_case(std::string_view text, std::string& lower) {
  const LetterCase& table = LetterCase::get();
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    points.push_back(point.value);
    at += point.size;
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const char32_t value = points[i];
    if (value < 0x80) {
      const bool is_upper = value >= 'A' && value <= 'Z';
      lower.push_back(static_cast<char>(is_upper ? value + ('a' - 'A') : value));
    } else if (value == 0x130) {  // I with a dot above: the dot stays as a mark
      lower.append("i\xCC\x87");
    } else if (value == 0x3A3 && is_final_sigma(points, i)) {
      append_utf8(lower, 0x3C2);
    } else {
      const auto mapped = table.lower.find(value);
      append_utf8(lower, mapped == table.lower.end() ? value : mapped->second);
    }
  }
}

}  // namespace cadre::data
