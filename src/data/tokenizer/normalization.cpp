#include "data/tokenizer/normalization.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/check.h"
#include "data/tokenizer/packed_numbers.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

#include "data/tokenizer/unicode_normalization.inc"

// Hangul syllables are computed, not listed (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11A7;  // one before the first: trail 0 is none
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

// Why a character may keep text from being in a form as it stands.
using Flags = uint8_t;
constexpr Flags kReorders = 1;     // has a combining class: order matters
constexpr Flags kJoinsBefore = 2;  // may be composed with what stands before it
constexpr Flags kNotComposed = 4;  // NFC spells it otherwise
constexpr Flags kDecomposes = 8;   // NFD takes it apart
constexpr Flags kCompatible = 16;  // NFKD takes it apart

struct Tables {
  std::vector<uint16_t> blocks;  // of 256 code points: where their flags and classes begin
  std::vector<Flags> flags;
  std::vector<uint8_t> classes;
  std::map<char32_t, std::pair<char32_t, char32_t>> canonical;  // second: 0 if there is none
  std::map<char32_t, std::vector<char32_t>> compatible;         // whole
  std::map<std::pair<char32_t, char32_t>, char32_t> compositions;

  Tables();
  static const Tables& get() {
    static const Tables tables;
    return tables;
  }
  size_t place(char32_t value) const { return size_t{blocks[value >> 8]} * 256 + (value & 255); }
  Flags flags_of(char32_t value) const { return flags[place(value)]; }
  uint8_t class_of(char32_t value) const { return classes[place(value)]; }

 private:
  void read_decompositions(std::vector<Flags>& whole);
  void read_compatibility(std::vector<Flags>& whole);
};

void Tables::read_decompositions(std::vector<Flags>& whole) {
  char32_t point = 0;
  int64_t first = 0;
  int64_t second = 0;
  for (PackedNumbers numbers(kDecompositions); !numbers.at_end();) {
    const uint32_t step = numbers.next();
    const uint32_t kind = step & 3;  // 0: one character, 1: a pair, 2: a pair that composes again
    point += step >> 2;
    first += numbers.next_signed();
    if (kind > 0) {
      second += numbers.next_signed();
    }
    const std::pair<char32_t, char32_t> pair = {static_cast<char32_t>(first),
                                                kind > 0 ? static_cast<char32_t>(second) : 0};
    canonical[point] = pair;
    whole[point] |= kDecomposes;
    if (kind == 2) {
      compositions[pair] = point;
      whole[pair.second] |= kJoinsBefore;
    } else {
      whole[point] |= kNotComposed;
    }
  }
}

void Tables::read_compatibility(std::vector<Flags>& whole) {
  char32_t point = 0;
  int64_t part = 0;
  for (PackedNumbers numbers(kCompatibility); !numbers.at_end();) {
    point += numbers.next();
    std::vector<char32_t>& parts = compatible[point];
    parts.resize(numbers.next());
    for (char32_t& own : parts) {
      part += numbers.next_signed();
      own = static_cast<char32_t>(part);
    }
    whole[point] |= kCompatible;
  }
}

Tables::Tables() {
  std::vector<Flags> whole_flags(kCodePoints);
  std::vector<uint8_t> whole_classes(kCodePoints);
  read_decompositions(whole_flags);
  read_compatibility(whole_flags);
  char32_t point = 0;
  for (PackedNumbers numbers(kCombiningClasses); !numbers.at_end();) {
    point += numbers.next();
    const char32_t end = point + numbers.next() + 1;
    const auto combining_class = static_cast<uint8_t>(numbers.next());
    for (; point < end; ++point) {
      whole_classes[point] = combining_class;
      whole_flags[point] |= kReorders;
    }
  }
  for (char32_t i = 0; i < kSyllableCount; ++i) {
    whole_flags[kSyllables + i] |= kDecomposes;
  }
  for (char32_t i = 0; i < kVowelCount; ++i) {
    whole_flags[kVowels + i] |= kJoinsBefore;
  }
  for (char32_t i = 1; i < kTrailCount; ++i) {
    whole_flags[kTrails + i] |= kJoinsBefore;
  }
  // What begins with a part that joins the character before may do so as a whole.
  for (const auto& [composite, pair] : canonical) {
    char32_t first = pair.first;
    for (auto inner = canonical.find(first); inner != canonical.end();
         inner = canonical.find(first)) {
      first = inner->second.first;
    }
    whole_flags[composite] |= static_cast<Flags>(whole_flags[first] & kJoinsBefore);
  }
  const auto bytes_at = [](const std::vector<uint8_t>& whole, char32_t block) {
    return std::string(whole.begin() + block, whole.begin() + block + 256);
  };
  std::map<std::string, uint16_t> known;
  for (char32_t block = 0; block < kCodePoints; block += 256) {
    const std::string own_flags = bytes_at(whole_flags, block);
    const std::string own_classes = bytes_at(whole_classes, block);
    const auto [entry, is_new] =
        known.try_emplace(own_flags + own_classes, static_cast<uint16_t>(known.size()));
    blocks.push_back(entry->second);
    if (is_new) {
      flags.insert(flags.end(), own_flags.begin(), own_flags.end());
      classes.insert(classes.end(), own_classes.begin(), own_classes.end());
    }
  }
}

void decompose(char32_t value, bool compatibility, std::vector<char32_t>& parts) {
  const Tables& tables = Tables::get();
  const Flags flags = tables.flags_of(value);
  if (compatibility && (flags & kCompatible) != 0) {
    const std::vector<char32_t>& whole = tables.compatible.at(value);
    parts.insert(parts.end(), whole.begin(), whole.end());
  } else if (value >= kSyllables && value < kSyllables + kSyllableCount) {
    const char32_t number = value - kSyllables;
    parts.push_back(kLeads + number / (kVowelCount * kTrailCount));
    parts.push_back(kVowels + number / kTrailCount % kVowelCount);
    if (number % kTrailCount != 0) {
      parts.push_back(kTrails + number % kTrailCount);
    }
  } else if ((flags & kDecomposes) != 0) {
    const auto [first, second] = tables.canonical.at(value);
    decompose(first, compatibility, parts);
    if (second != 0) {
      decompose(second, compatibility, parts);
    }
  } else {
    parts.push_back(value);
  }
}

// Marks in a row go by their class; those of one class keep their order.
void sort_marks(std::vector<char32_t>& parts) {
  const Tables& tables = Tables::get();
  for (auto run = parts.begin(); run != parts.end();) {
    if (tables.class_of(*run) == 0) {
      ++run;
      continue;
    }
    const auto end =
        std::find_if(run, parts.end(), [&](char32_t part) { return tables.class_of(part) == 0; });
    std::stable_sort(run, end, [&](char32_t left, char32_t right) {
      return tables.class_of(left) < tables.class_of(right);
    });
    run = end;
  }
}

// The character that the pair makes, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels &&
      second < kVowels + kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  }
  if (first >= kSyllables && first < kSyllables + kSyllableCount &&
      (first - kSyllables) % kTrailCount == 0 && second > kTrails &&
      second < kTrails + kTrailCount) {
    return first + (second - kTrails);
  }
  const auto& compositions = Tables::get().compositions;
  const auto found = compositions.find({first, second});
  return found == compositions.end() ? 0 : found->second;
}

// Joins each character with the last starter before it, if nothing between them is in the way.
void compose(std::vector<char32_t>& parts) {
  const Tables& tables = Tables::get();
  size_t kept = 0;
  size_t starter = SIZE_MAX;
  uint8_t last_class = 0;  // of the last part kept behind the starter
  for (const char32_t part : parts) {
    const uint8_t own_class = tables.class_of(part);
    if (starter != SIZE_MAX) {
      const bool adjacent = starter + 1 == kept;
      const bool reachable = adjacent || (last_class < own_class && last_class != 0);
      const char32_t whole = reachable ? composed(parts[starter], part) : 0;
      if (whole != 0) {
        parts[starter] = whole;
        continue;
      }
    }
    if (own_class == 0) {
      starter = kept;
    }
    last_class = own_class;
    parts[kept++] = part;
  }
  parts.resize(kept);
}

}  // namespace

std::string_view normalized(std::string_view text, const NormalizationForm& form,
                            std::string& storage) {
  const Tables& tables = Tables::get();
  // A character with none of these flags is in the form and nothing before it matters to it.
  const auto unstable =
      static_cast<Flags>(kReorders | (form.compose ? kJoinsBefore | kNotComposed : kDecomposes) |
                         (form.compatibility ? kCompatible : 0));
  size_t done = 0;  // what is in `storage` already
  size_t last = 0;  // where the last stable character begins
  bool changed = false;
  std::vector<char32_t> parts;
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (point.value < 0x80 || (tables.flags_of(point.value) & unstable) == 0) {
      last = at;
      at += point.size;
      continue;
    }
    // From the stable character before up to the next one: what happens there stays there.
    parts.clear();
    size_t end = last;
    do {
      const CodePoint inside = code_point_at(text, end);
      decompose(inside.value, form.compatibility, parts);
      end += inside.size;
    } while (end < text.size() &&
             (end <= at || (tables.flags_of(code_point_at(text, end).value) & unstable) != 0));
    sort_marks(parts);
    if (form.compose) {
      compose(parts);
    }
    if (!changed) {
      storage.clear();
      changed = true;
    }
    storage.append(text.substr(done, last - done));
    for (const char32_t part : parts) {
      append_utf8(storage, part);
    }
    done = last = at = end;
  }
  if (!changed) {
    return text;
  }
  storage.append(text.substr(done));
  return storage;
}

}  // namespace cadre::data
