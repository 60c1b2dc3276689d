// Unicode's facts about code points, of the version that unicode_categories.inc names.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cadre::data {

inline constexpr char32_t kCodePoints = 0x110000;

// General categories, in the order of the packed table.
enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
};

// Sets of categories, one bit for each; kWhite is no category and has a bit of its own.
using Categories = uint32_t;
constexpr Categories set_of(Category category) {
  return Categories{1} << static_cast<int>(category);
}
inline constexpr Categories kUpper = set_of(Category::kLu) | set_of(Category::kLt);
inline constexpr Categories kLower = set_of(Category::kLl);
inline constexpr Categories kUncased = set_of(Category::kLm) | set_of(Category::kLo);
inline constexpr Categories kLetter = kUpper | kLower | kUncased;
inline constexpr Categories kMark =
    set_of(Category::kMn) | set_of(Category::kMc) | set_of(Category::kMe);
inline constexpr Categories kNumber =
    set_of(Category::kNd) | set_of(Category::kNl) | set_of(Category::kNo);
inline constexpr Categories kWhite = Categories{1} << 30;  // the property White_Space

// Category and white space of every code point; looking one up is two loads.
class CategoryTable {
 public:
  static const CategoryTable& get();

  // One bit for the category, and kWhite.
  Categories of(char32_t value) const {
    return bits_[pages_[(size_t{blocks_[value >> 8]} << 8) | (value & 0xFF)]];
  }

 private:
  CategoryTable();

  std::array<uint8_t, (kCodePoints >> 8)> blocks_{};
  std::vector<uint8_t> pages_;  // bit 5 is white space, the lower bits are the category
  std::array<Categories, 64> bits_{};
};

// A set of code points as sorted, disjoint ranges [first, last].
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;

  bool operator==(const CodePointRange&) const = default;
};
using CodePointSet = std::vector<CodePointRange>;

CodePointSet united(const CodePointSet& left, const CodePointSet& right);

// The set that \p{name} means: a category ("Lu"), a group of categories ("L"), White_Space or a
// script (also as "Script=Han"). False for a name that is not known; known_properties() lists them.
bool property_set(std::string_view name, CodePointSet& set);
std::string known_properties();

// Appends the lower case of `text`, as String.prototype.toLowerCase does: with U+0130 in two code
// points and the final sigma.
void append_lower_case(std::string_view text, std::string& lower);

}  // namespace cadre::data
