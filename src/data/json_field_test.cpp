#include "data/json_field.h"

#include <gtest/gtest.h>

namespace cadre::data {
namespace {

TEST(JsonField, FindsTheTextOfTheOuterObjectOnly) {
  const auto text = [](std::string_view line) {
    return find_text_field(line, "text").value_or("nothing");
  };
  EXPECT_EQ(text(R"({"text": "a\n\u00e9\ud83d\ude00"})"), "a\n\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(text(R"({"a": {"text": "inner"}, "text": "outer", "b": [{"text": 1}], "c": 2.5})"),
            "outer");
  EXPECT_EQ(text(R"({"text": ""})"), "");
  EXPECT_EQ(text(R"({"a": {"text": "inner"}})"), "nothing");
  EXPECT_EQ(text(R"(["text", "a"])"), "nothing");
  EXPECT_EQ(text(R"("text")"), "nothing");
}

TEST(JsonField, LeavesWhatIsWrongToTheParserThatExplains) {
  const auto found = [](std::string_view line) {
    return find_text_field(line, "text").has_value();
  };
  EXPECT_FALSE(found(R"({"text": 1})"));
  EXPECT_FALSE(found(R"({"text": null})"));
  EXPECT_FALSE(found(R"({"text": ["a"]})"));
  EXPECT_FALSE(found(R"({"text": {"text": "a"}})"));
  EXPECT_FALSE(found(R"({"text": "a", "text": "b"})"));
  EXPECT_FALSE(found(R"({"text": "a"} x)"));
  EXPECT_FALSE(found(R"({"text": "a")"));
  EXPECT_FALSE(found("{\"text\": \"a\", \"b\": \"\xFF\"}"));
  EXPECT_FALSE(
      found("{\"text\": \"a\", \"b\": " + std::string(100, '[') + std::string(100, ']') + "}"));
  EXPECT_FALSE(found(""));
}

}  // namespace
}  // namespace cadre::data
