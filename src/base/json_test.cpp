#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace cadre {
namespace {

std::string refusal(std::string_view text) {
  const Result<Json> result = parse_json(text, "config.json");
  return result.ok() ? "" : result.error().message;
}

TEST(Json, ReadsAndKeepsTheOrderOfKeys) {
  const Result<Json> json = parse_json(R"({"b": 1, "a": [true, null, 2.5]})", "config.json");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->begin().key(), "b");
  EXPECT_EQ((*json)["a"][2], 2.5);
}

TEST(Json, NamesThePlaceOfAnError) {
  EXPECT_NE(refusal("{\n  \"a\": 1,,\n}").find("config.json:2:"), std::string::npos);
  EXPECT_NE(refusal("").find("config.json:1:1"), std::string::npos);
}

TEST(Json, RefusesInvalidUtf8DuplicateKeysAndDepth) {
  EXPECT_EQ(refusal("{\"a\": \"\xFF\"}"), "config.json:1:8: not valid UTF-8");
  EXPECT_NE(refusal(R"({"a": 1, "a": 2})").find("\"a\" stands twice"), std::string::npos);
  // Its second place, whatever looks like it before: in texts, in other objects.
  EXPECT_EQ(
      refusal(
          "{\"x\": \"\\\"a\\\": \\\\\", \"y\": {\"a\": 1},\n \"a\": [{\"a\": 2}],\n  \"a\": 3}"),
      "config.json:3:3: the key \"a\" stands twice in one object");
  EXPECT_EQ(refusal(R"({"a": {"b": 1}, "b": {"b": 2}})"), "");
  EXPECT_NE(refusal(std::string(100000, '[')).find("more than 64 deep"), std::string::npos);
}

}  // namespace
}  // namespace cadre
