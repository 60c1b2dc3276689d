#include "data/tokenizer/scanners.h"

#include <array>
#include <cstdint>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

// What the patterns ask about a character; bits, so that one look-up answers all.
using Kind = uint8_t;
constexpr Kind kUpperBit = 1;     // Lu, Lt
constexpr Kind kLowerBit = 2;     // Ll
constexpr Kind kUncasedBit = 4;   // Lm, Lo
constexpr Kind kMarkBit = 8;      // M
constexpr Kind kNumberBit = 16;   // N
constexpr Kind kWhiteBit = 32;    // \s
constexpr Kind kNewlineBit = 64;  // \r, \n
constexpr Kind kWideBit = 128;    // in the table of bytes: look the code point up
constexpr Kind kLetterBits = kUpperBit | kLowerBit | kUncasedBit;
constexpr Kind kCommonBits = kUncasedBit | kMarkBit;  // on both sides of GPT-4o's words
constexpr Kind kWordBits = kLetterBits | kNumberBit | kWhiteBit;

constexpr std::array<Kind, 256> make_byte_kinds() {
  std::array<Kind, 256> kinds{};
  for (size_t byte = 0; byte < 256; ++byte) {
    kinds[byte] = byte >= 'A' && byte <= 'Z'   ? kUpperBit
                  : byte >= 'a' && byte <= 'z' ? kLowerBit
                  : byte >= '0' && byte <= '9' ? kNumberBit
                  : byte >= 0x80               ? kWideBit
                                               : Kind{0};
  }
  kinds['\n'] = kinds['\r'] = kWhiteBit | kNewlineBit;
  kinds[' '] = kinds['\t'] = kinds['\v'] = kinds['\f'] = kWhiteBit;
  return kinds;
}
constexpr std::array<Kind, 256> kByteKinds = make_byte_kinds();

// Reads characters and their kinds from valid UTF-8.
template <bool kEcmaSpace>
class Reader {
 public:
  explicit Reader(std::string_view text)
      : begin_(text.data()), size_(text.size()), table_(CategoryTable::get()) {}

  size_t size() const { return size_; }
  bool has(size_t at) const { return at < size_; }
  unsigned char byte(size_t at) const { return static_cast<unsigned char>(begin_[at]); }
  bool sees(size_t at, char letter) const { return at < size_ && begin_[at] == letter; }

  // The kind of the character at `at`, and its size in bytes.
  Kind kind(size_t at, size_t& bytes) const {
    const Kind quick = kByteKinds[byte(at)];
    bytes = 1;
    return quick != kWideBit ? quick : wide_kind(at, bytes);
  }
  Kind kind(size_t at) const {
    size_t bytes = 0;
    return kind(at, bytes);
  }

  // The end of the run of characters from `at` that have one of `wanted`.
  size_t skip(size_t at, Kind wanted) const {
    for (;;) {
      while (at < size_ && (kByteKinds[byte(at)] & wanted) != 0) {
        ++at;
      }
      size_t bytes = 0;
      if (at >= size_ || kByteKinds[byte(at)] != kWideBit || (wide_kind(at, bytes) & wanted) == 0) {
        return at;
      }
      at += bytes;
    }
  }

  // The end of the run of characters from `at` that have none of `unwanted`.
  size_t skip_without(size_t at, Kind unwanted) const {
    for (;;) {
      while (at < size_ && (kByteKinds[byte(at)] & (unwanted | kWideBit)) == 0) {
        ++at;
      }
      size_t bytes = 0;
      if (at >= size_ || kByteKinds[byte(at)] != kWideBit ||
          (wide_kind(at, bytes) & unwanted) != 0) {
        return at;
      }
      at += bytes;
    }
  }

  // 's 't 'm 'd 're 've 'll: the size of the one that begins with the ' at `at`, or 0.
  template <bool kAnyCase>
  size_t contraction(size_t at) const {
    const auto letter = [this, at](size_t i) -> char {
      if (at + i >= size_) {
        return '\0';
      }
      const char own = begin_[at + i];
      return kAnyCase && own >= 'A' && own <= 'Z' ? static_cast<char>(own + ('a' - 'A')) : own;
    };
    switch (letter(1)) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return 2;
      case 'r':
      case 'v':
        return letter(2) == 'e' ? 3 : 0;
      case 'l':
        return letter(2) == 'l' ? 3 : 0;
      default:
        return 0;
    }
  }

  // \s+(?!\S)|\s+ at white space: all of the run that ends the text, otherwise all but its last
  // character, which goes with the word behind; but at least one.
  size_t white_end(size_t at) const {
    const size_t end = skip(at, kWhiteBit);
    if (end == size_) {
      return end;
    }
    size_t last = end - 1;
    while ((byte(last) & 0xC0) == 0x80) {
      --last;
    }
    return last > at ? last : end;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ at white space: up to the run's last line break, if it has one.
  size_t line_or_white_end(size_t at) const {
    const size_t end = skip(at, kWhiteBit);
    for (size_t last = end; last > at; --last) {
      if ((kByteKinds[byte(last - 1)] & kNewlineBit) != 0) {
        return last;
      }
    }
    return white_end(at);
  }

  size_t numbers_end(size_t at, int most) const {
    for (int taken = 0; taken < most && at < size_; ++taken) {
      size_t bytes = 0;
      if ((kind(at, bytes) & kNumberBit) == 0) {
        break;
      }
      at += bytes;
    }
    return at;
  }

 private:
  Kind wide_kind(size_t at, size_t& bytes) const {
    const CodePoint point = code_point_at({begin_, size_}, at);
    bytes = point.size;
    const Categories bits = table_.of(point.value);
    if ((bits & kLetter) != 0) {
      return (bits & kUncased) != 0 ? kUncasedBit : (bits & kLower) != 0 ? kLowerBit : kUpperBit;
    }
    if constexpr (kEcmaSpace) {
      if (point.value == 0xFEFF) {
        return kWhiteBit;
      }
      if (point.value == 0x85) {
        return 0;
      }
    }
    return (bits & kNumber) != 0  ? kNumberBit
           : (bits & kMark) != 0  ? kMarkBit
           : (bits & kWhite) != 0 ? kWhiteBit
                                  : Kind{0};
  }

  const char* begin_;
  size_t size_;
  const CategoryTable& table_;
};

// Each scanner's next() is the end of the piece that begins at `at`, which is inside the text.

template <bool kEcmaSpace>
struct Gpt2Scanner {
  using Text = Reader<kEcmaSpace>;

  static size_t next(const Text& text, size_t at) {
    if (text.byte(at) == '\'') {
      if (const size_t size = text.template contraction<false>(at); size > 0) {
        return at + size;
      }
    }
    const size_t first = at + (text.byte(at) == ' ' ? 1 : 0);
    if (text.has(first)) {
      const Kind kind = text.kind(first);
      if ((kind & kLetterBits) != 0) {
        return text.skip(first, kLetterBits);
      }
      if ((kind & kNumberBit) != 0) {
        return text.skip(first, kNumberBit);
      }
      if ((kind & kWhiteBit) == 0) {
        return text.skip_without(first, kWordBits);
      }
    }
    return text.white_end(at);
  }
};

template <int kDigits>
struct Llama3Scanner {
  using Text = Reader<false>;

  static size_t next(const Text& text, size_t at) {
    size_t bytes = 0;
    const Kind kind = text.kind(at, bytes);
    if ((kind & kLetterBits) != 0) {
      return text.skip(at + bytes, kLetterBits);
    }
    if ((kind & kNumberBit) != 0) {
      return text.numbers_end(at, kDigits);
    }
    if (text.byte(at) == '\'') {
      if (const size_t size = text.template contraction<true>(at); size > 0) {
        return at + size;
      }
    }
    const size_t behind = at + bytes;
    if ((kind & kNewlineBit) == 0 && text.has(behind) && (text.kind(behind) & kLetterBits) != 0) {
      return text.skip(behind, kLetterBits);
    }
    const size_t first = at + (text.byte(at) == ' ' ? 1 : 0);
    if (text.has(first) && (text.kind(first) & kWordBits) == 0) {
      return text.skip(text.skip_without(first, kWordBits), kNewlineBit);
    }
    return text.line_or_white_end(at);
  }
};

struct Gpt4oScanner {
  using Text = Reader<false>;

  static constexpr size_t kNone = SIZE_MAX;

  // [U C]*[L C]+ at `at`, with U upper case, L lower case and C what is neither (marks too): where
  // it ends, or kNone; `upper_end` is where [U C]* alone would end.
  static size_t word_end(const Text& text, size_t at, size_t& upper_end) {
    size_t common_end = kNone;  // behind the last C of [U C]*
    size_t place = at;
    while (text.has(place)) {
      size_t bytes = 0;
      const Kind kind = text.kind(place, bytes);
      if ((kind & (kUpperBit | kCommonBits)) == 0) {
        break;
      }
      place += bytes;
      common_end = (kind & kCommonBits) != 0 ? place : common_end;
    }
    upper_end = place;
    if (text.has(place) && (text.kind(place) & kLowerBit) != 0) {
      return text.skip(place, kLowerBit | kCommonBits);
    }
    // [U C]* has to give back what [L C]+ needs: everything behind its last C, and that C.
    return common_end;
  }

  static size_t with_contraction(const Text& text, size_t end) {
    return text.sees(end, '\'') ? end + text.contraction<true>(end) : end;
  }

  static size_t next(const Text& text, size_t at) {
    size_t bytes = 0;
    const Kind kind = text.kind(at, bytes);
    const bool may_precede = (kind & (kNewlineBit | kLetterBits | kNumberBit)) == 0;
    const bool may_begin = (kind & (kLetterBits | kMarkBit)) != 0;
    size_t upper_end = at;
    if (may_precede) {
      const size_t first = at + bytes;
      size_t end = word_end(text, first, upper_end);
      if (end == kNone && !may_begin && upper_end > first) {
        end = upper_end;  // the second alternative: [U C]+[L C]*
      }
      if (end != kNone) {
        return with_contraction(text, end);
      }
    }
    if (may_begin) {
      const size_t end = word_end(text, at, upper_end);
      return with_contraction(text, end == kNone ? upper_end : end);
    }
    if ((kind & kNumberBit) != 0) {
      return text.numbers_end(at, 3);
    }
    const size_t first = at + (text.byte(at) == ' ' ? 1 : 0);
    if (text.has(first) && (text.kind(first) & kWordBits) == 0) {
      size_t end = text.skip_without(first, kWordBits);
      while (text.has(end) &&
             (text.byte(end) == '/' || text.byte(end) == '\r' || text.byte(end) == '\n')) {
        ++end;
      }
      return end;
    }
    return text.line_or_white_end(at);
  }
};

template <typename Scanner>
class ScannerSplitter final : public Splitter {
 public:
  void next_batch(std::string_view text, size_t from, RegexScratch&,
                  PieceBatch& batch) const override {
    const typename Scanner::Text reader(text);
    while (from < text.size() && !batch.is_full()) {
      from = Scanner::next(reader, from);
      batch.add(from);
    }
  }
};

}  // namespace

std::unique_ptr<Splitter> make_gpt2_scanner(bool ecma_space) {
  if (ecma_space) {
    return std::make_unique<ScannerSplitter<Gpt2Scanner<true>>>();
  }
  return std::make_unique<ScannerSplitter<Gpt2Scanner<false>>>();
}

std::unique_ptr<Splitter> make_scanner(std::string_view pattern) {
  if (pattern == kGpt2Pattern) {
    return make_gpt2_scanner(false);
  }
  if (pattern == kLlama3Pattern) {
    return std::make_unique<ScannerSplitter<Llama3Scanner<3>>>();
  }
  if (pattern == kQwen2Pattern) {
    return std::make_unique<ScannerSplitter<Llama3Scanner<1>>>();
  }
  if (pattern == kGpt4oPattern) {
    return std::make_unique<ScannerSplitter<Gpt4oScanner>>();
  }
  return nullptr;
}

}  // namespace cadre::data
