#include "data/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cadre::data {
namespace {

// All matches in turn, as String.prototype.match with the flags g and u gives them.
std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = Regex::parse(pattern);
  EXPECT_TRUE(regex.ok()) << (regex.ok() ? "" : regex.error().message);
  std::vector<std::string> found;
  RegexScratch scratch;
  regex->begin_text(text, scratch);
  Regex::Match match;
  for (size_t at = 0; regex->find(text, at, scratch, match); at = match.end) {
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
  }
  return found;
}

std::string refusal(std::string_view pattern) {
  const Result<Regex> regex = Regex::parse(pattern);
  return regex.ok() ? "" : regex.error().message;
}

using Found = std::vector<std::string>;

TEST(Regex, TakesTheFirstAlternativeThatMatchesNotTheLongest) {
  EXPECT_EQ(matches("a|ab", "ab"), Found{"a"});
  EXPECT_EQ(matches("ab|a", "aab"), (Found{"a", "ab"}));
  EXPECT_EQ(matches("(?:a|ab)c", "abc"), Found{"abc"});
}

TEST(Regex, RepeatsGreedilyLazilyAndPossessively) {
  EXPECT_EQ(matches("a+ab", "aaab"), Found{"aaab"});
  EXPECT_EQ(matches("<.+>", "<a><b>"), Found{"<a><b>"});
  EXPECT_EQ(matches("<.+?>", "<a><b>"), (Found{"<a>", "<b>"}));
  EXPECT_EQ(matches("a++ab", "aaab"), Found{});
  EXPECT_EQ(matches("(?>a+)b", "aaab"), Found{"aaab"});
  EXPECT_EQ(matches("x?+y", "xy y"), (Found{"xy", "y"}));
}

TEST(Regex, CountsRepetitions) {
  EXPECT_EQ(matches("a{2,3}", "aaaaaaaa"), (Found{"aaa", "aaa", "aa"}));
  EXPECT_EQ(matches("a{2}", "aaaaa"), (Found{"aa", "aa"}));
  EXPECT_EQ(matches("ba{,1}", "baab"), (Found{"ba", "b"}));
  EXPECT_EQ(matches("a{2,}?", "aaaaa"), (Found{"aa", "aa"}));
  EXPECT_EQ(matches("a{2}+", "aaaaa"), Found{"aaaa"});  // Oniguruma: repeated once more
  EXPECT_EQ(matches("a{x}", "a{x}"), Found{"a{x}"});
}

TEST(Regex, LooksAheadWithoutTaking) {
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+)", "a   b  "), (Found{"  ", " ", "  "}));
  EXPECT_EQ(matches("a(?=b)", "ab ac"), Found{"a"});
}

TEST(Regex, KnowsClasses) {
  EXPECT_EQ(matches("[a-c-]+", "ab-cd"), Found{"ab-c"});
  EXPECT_EQ(matches("[]a]+", "a]b"), Found{"a]"});
  EXPECT_EQ(matches(R"([^\s\p{L}]+)", "ab12 \xC3\xA9?"), (Found{"12", "?"}));
  EXPECT_EQ(matches(R"([\p{L}&&[^aeiou]]+)", "hello"), (Found{"h", "ll"}));
  EXPECT_EQ(matches(R"([^(\s|[.,])]+)", "a.b|c d"), (Found{"a", "b", "c", "d"}));
  EXPECT_EQ(matches(R"([\x{4E00}-\u9FFF]+)", "a\xE4\xB8\xAD\xE6\x96\x87z"),
            Found{"\xE4\xB8\xAD\xE6\x96\x87"});
  EXPECT_EQ(matches(R"(\p{^L}+|\P{Lu}+)", "aB1"), (Found{"a", "1"}));
  EXPECT_EQ(matches(R"(\w+)", "a_1 \xC2\xB2"), Found{"a_1"});
}

TEST(Regex, IgnoresTheCaseOfAsciiLettersOnly) {
  EXPECT_EQ(matches("(?i:'s|[k])s", "'Ss ks Ks \xE2\x84\xAAs"), (Found{"'Ss", "ks", "Ks"}));
  EXPECT_EQ(matches("(?i:a)b", "Ab AB"), Found{"Ab"});
}

TEST(Regex, RefusesByNameWhatItDoesNotSupport) {
  EXPECT_NE(refusal("(a").find("a ( without )"), std::string::npos);
  EXPECT_NE(refusal("a)").find("a ) without ("), std::string::npos);
  EXPECT_NE(refusal("[a").find("a [ without ]"), std::string::npos);
  EXPECT_NE(refusal("a(?<=b)").find("(?<"), std::string::npos);
  EXPECT_NE(refusal(R"((a)\1)").find(R"(\1 is not supported)"), std::string::npos);
  EXPECT_NE(refusal(R"(\bx)").find(R"(\b is not supported)"), std::string::npos);
  EXPECT_NE(refusal(R"(\p{Klingon})").find("\"Klingon\" is not supported"), std::string::npos);
  EXPECT_NE(refusal("[[:alpha:]]").find("POSIX"), std::string::npos);
  EXPECT_NE(refusal("^a").find("\"^\" is not supported"), std::string::npos);
  EXPECT_NE(refusal("a*").find("can match nothing"), std::string::npos);
  EXPECT_NE(refusal("(a*)*b").find("can match nothing"), std::string::npos);
  EXPECT_NE(refusal("[b-a]").find("range"), std::string::npos);
  EXPECT_NE(refusal("a{5000}").find("repetitions"), std::string::npos);
  EXPECT_NE(refusal("((a{1000}){1000}){1000}").find("too large"), std::string::npos);
  EXPECT_NE(refusal(std::string(1000, '(')).find("nested too deep"), std::string::npos);
  EXPECT_NE(refusal(std::string(1000, '[')).find("nested too deep"), std::string::npos);
  EXPECT_NE(refusal("\\").find("backslash"), std::string::npos);
}

TEST(Regex, StaysFastWherePlainBacktrackingWouldNotEnd) {
  const std::string text(20000, 'a');
  EXPECT_EQ(matches("(?:a|a)+b|c", text), Found{});
  EXPECT_EQ(matches("(?:a+)+b|c", text), Found{});
  EXPECT_EQ(matches("a+b|a", text).size(), text.size());
}

}  // namespace
}  // namespace cadre::data
