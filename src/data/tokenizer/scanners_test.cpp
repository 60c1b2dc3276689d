// The scanners against the general matcher, on texts that mix what their patterns tell apart.

#include "data/tokenizer/scanners.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/tokenizer/splitters.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

std::vector<std::string> pieces(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> result;
  RegexScratch scratch;
  splitter.begin_text(text, scratch);
  for (size_t from = 0; from < text.size();) {
    PieceBatch batch;
    splitter.next_batch(text, from, scratch, batch);
    for (size_t i = 0; i < batch.size; ++i) {
      result.emplace_back(text.substr(from, batch.ends[i] - from));
      from = batch.ends[i];
    }
  }
  return result;
}

// A few characters of every kind, and now and then any code point at all.
std::string random_text(uint64_t stream) {
  constexpr std::array<std::string_view, 48> kParts = {"a",
                                                       "b",
                                                       "s",
                                                       "t",
                                                       "re",
                                                       "LL",
                                                       "V",
                                                       "E",
                                                       "\xC3\xA9",
                                                       "\xC3\x89",
                                                       "\xC7\x85",
                                                       "\xCA\xB0",
                                                       "\xD7\xA9",
                                                       "\xE4\xB8\xAD",
                                                       "\xE3\x83\xBC",
                                                       "\xCC\x81",
                                                       "\xE0\xA4\xBE",
                                                       "\xE2\x83\x9D",
                                                       "1",
                                                       "2",
                                                       "345",
                                                       "\xC2\xBD",
                                                       "\xD9\xA3",
                                                       "\xF0\x9D\x9F\x8F",
                                                       " ",
                                                       " ",
                                                       "  ",
                                                       "\t",
                                                       "\n",
                                                       "\r\n",
                                                       "\n\n",
                                                       "\xC2\xA0",
                                                       "\xE3\x80\x80",
                                                       "\xC2\x85",
                                                       "\xEF\xBB\xBF",
                                                       "\xE2\x80\x8B",
                                                       "'",
                                                       "'s",
                                                       "'S",
                                                       "'Re",
                                                       "'lL",
                                                       "/",
                                                       "!",
                                                       "...",
                                                       "_",
                                                       "\xE2\x82\xAC",
                                                       "\xF0\x9F\x98\x80",
                                                       "\xCD\xB8"};
  const RandomKey key{.seed = 11, .stream = stream};
  std::string text;
  const uint32_t length = random_word_at(key, 0) % 24;
  for (uint32_t i = 1; i <= length; ++i) {
    const uint32_t word = random_word_at(key, i);
    const char32_t any = word % kCodePoints;
    if (word % 32 == 0 && (any < 0xD800 || any > 0xDFFF)) {
      append_utf8(text, any);
    } else {
      text += kParts[(word >> 8) % kParts.size()];
    }
  }
  return text;
}

class Scanner : public testing::TestWithParam<std::string_view> {};

TEST_P(Scanner, CutsAsThePatternSays) {
  const std::unique_ptr<Splitter> scanner = make_scanner(GetParam());
  ASSERT_NE(scanner, nullptr);
  Result<Pattern> pattern = Pattern::of_regex(GetParam());
  ASSERT_TRUE(pattern.ok()) << pattern.error().message;
  const std::unique_ptr<Splitter> general =
      make_pattern_splitter(std::move(*pattern), SplitBehavior::kKept);
  for (uint64_t stream = 0; stream < 20000; ++stream) {
    const std::string text = random_text(stream);
    ASSERT_EQ(pieces(*scanner, text), pieces(*general, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, Scanner,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern,
                                         kGpt4oPattern));

TEST(Scanners, DoNotKnowOtherPatterns) {
  EXPECT_EQ(make_scanner(R"(\p{L}+)"), nullptr);
}

TEST(Scanners, Gpt2TakesWhiteSpaceAsEcmaScriptDoes) {
  using Pieces = std::vector<std::string>;
  const std::string text = "a \xEF\xBB\xBF!\xC2\x85!";  // U+FEFF is white there, U+0085 is not
  EXPECT_EQ(pieces(*make_gpt2_scanner(true), text),
            (Pieces{"a", " ", "\xEF\xBB\xBF", "!\xC2\x85!"}));
  EXPECT_EQ(pieces(*make_gpt2_scanner(false), text),
            (Pieces{"a", " \xEF\xBB\xBF!", "\xC2\x85", "!"}));
}

TEST(Splitters, TreatMatchesAsTheirBehaviorSays) {
  using Pieces = std::vector<std::string>;
  const auto cut = [](SplitBehavior behavior) {
    const auto splitter = make_pattern_splitter(Pattern::of_text("-"), behavior);
    const std::string_view text = "the-final--countdown";
    std::vector<std::string> kept;
    PieceBatch batch;
    RegexScratch scratch;
    splitter->begin_text(text, scratch);
    splitter->next_batch(text, 0, scratch, batch);
    size_t from = 0;
    for (size_t i = 0; i < batch.size; ++i) {
      if (!batch.dropped[i]) {
        kept.emplace_back(text.substr(from, batch.ends[i] - from));
      }
      from = batch.ends[i];
    }
    return kept;
  };
  EXPECT_EQ(cut(SplitBehavior::kRemoved), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kIsolated), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kMergedWithPrevious), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kMergedWithNext), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kContiguous), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(cut(SplitBehavior::kKept), (Pieces{"-", "-", "-"}));
}

}  // namespace
}  // namespace cadre::data
