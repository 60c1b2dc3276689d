#include "spec/yaml.h"

#include <gtest/gtest.h>

#include <string>

namespace cadre {
namespace {

std::string refusal(std::string_view text, const YamlLimits& limits = {}) {
  const Result<ConfigValue> result = parse_yaml(text, "run.yaml", limits);
  return result.ok() ? "" : result.error().message;
}

TEST(Yaml, KeepsTheTextTheQuotesAndThePlaceOfEveryValue) {
  const Result<ConfigValue> root = parse_yaml("a:\n  é: [no, \"no\", 1e3]\n  b: ~\n", "run.yaml");
  ASSERT_TRUE(root.ok()) << root.error().message;
  const ConfigValue* list = root->find("a")->find("é");
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[0].text, "no");
  EXPECT_FALSE(list->items[0].quoted);
  EXPECT_TRUE(list->items[1].quoted);
  EXPECT_EQ(list->items[2].text, "1e3");
  EXPECT_EQ(list->items[2].place, "run.yaml:2:17");  // in characters, as an editor counts
  EXPECT_EQ(root->find("a")->entries[1].place, "run.yaml:3:3");
  EXPECT_EQ(root->find("a")->find("b")->kind, ConfigValue::Kind::kNull);
}

TEST(Yaml, TakesAnEmptyTextForAnEmptyMap) {
  for (const std::string_view text : {"", "# only a comment\n", "---\n", "null"}) {
    const Result<ConfigValue> root = parse_yaml(text, "run.yaml");
    ASSERT_TRUE(root.ok()) << root.error().message;
    EXPECT_EQ(root->kind, ConfigValue::Kind::kMap);
    EXPECT_TRUE(root->entries.empty());
  }
}

TEST(Yaml, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(refusal("a: 1\nb: 2\na: 3\n"),
            "run.yaml:3:1: the key \"a\" stands twice, the first time at run.yaml:1:1");
  EXPECT_EQ(refusal("x: {a: 1, a: 2}"),
            "run.yaml:1:11: the key \"a\" stands twice, the first time at run.yaml:1:5");
}

TEST(Yaml, RefusesAnchorsAliasesMergesAndTags) {
  EXPECT_EQ(
      refusal("a: &x 1\nb: *x\n"),
      "run.yaml:1:4: anchors (&name) are not supported; write the value out, or quote a text");
  EXPECT_EQ(refusal("paths: *.txt"),
            "run.yaml:1:8: an alias (*name); write the value out, or quote a glob");
  EXPECT_EQ(refusal("<<: {a: 1}"),
            "run.yaml:1:1: merge keys (<<) are not supported; write the values out");
  EXPECT_EQ(
      refusal("a: !!int 3"),
      "run.yaml:1:4: tags (tag:yaml.org,2002:int) are not supported; the schema knows each type");
}

TEST(Yaml, RefusesABombOfAliasesAtItsFirstAnchor) {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    bomb += concat("a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]\n");
  }
  EXPECT_EQ(
      refusal(bomb),
      "run.yaml:1:5: anchors (&name) are not supported; write the value out, or quote a text");
}

TEST(Yaml, RefusesTabsAsIndentationButNotElsewhere) {
  EXPECT_EQ(refusal("a:\n\tb: 1\n"),
            "run.yaml:2:1: a tab in the indentation; YAML allows only spaces there");
  EXPECT_EQ(refusal("a:\n  \tb: 1\n"),
            "run.yaml:2:3: a tab in the indentation; YAML allows only spaces there");
  EXPECT_EQ(refusal("a: 1\t# a comment\n\t\nb: \"x\ty\"\n"), "");
}

TEST(Yaml, RefusesWhatIsNotPlainUtf8Text) {
  EXPECT_EQ(refusal("a: 1\nb: \"\xFF\"\n"), "run.yaml:2:5: not valid UTF-8");
  EXPECT_EQ(refusal("\xFF\xFE"
                    "a"),
            "run.yaml:1:1: not valid UTF-8");
  EXPECT_EQ(refusal(std::string_view("a: \0", 4)),
            "run.yaml:1:4: a control character (code 0); write it as an escape in double quotes");
}

TEST(Yaml, RefusesASecondDocumentAndKeysThatAreNotWords) {
  EXPECT_EQ(refusal("---\na: 1\n---\nb: 1\n"),
            "run.yaml:3:1: a second document; a configuration is one document");
  EXPECT_EQ(refusal("? [a]\n: 1\n"),
            "run.yaml:1:3: a list or a map where a key is expected; is a bracket open?");
  EXPECT_EQ(refusal(": 1\n"), "run.yaml:1:1: a key without a name");
}

TEST(Yaml, NamesThePlaceOfWhatIsNotYaml) {
  EXPECT_EQ(refusal("a: 1\n b: 2\n"), "run.yaml:2:3: not YAML: illegal map value");
  EXPECT_EQ(refusal("a: \"x"), "run.yaml:1:6: not YAML: illegal EOF in scalar");
}

TEST(Yaml, HoldsItsLimits) {
  const YamlLimits limits = {
      .bytes_max = 200, .scalar_bytes_max = 10, .values_max = 20, .depth_max = 3};
  EXPECT_EQ(refusal(std::string(201, '#'), limits),
            "run.yaml: has 201 bytes; a configuration has at most 200");
  EXPECT_EQ(refusal("a: 12345678901", limits),
            "run.yaml:1:4: a value of 11 bytes; at most 10 are allowed");
  EXPECT_EQ(refusal("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", limits),
            "run.yaml:1:40: more than 20 values");
  EXPECT_EQ(refusal("[[[1]]]", limits), "");
  EXPECT_EQ(refusal("[[[[1]]]]", limits), "run.yaml:1:4: nested more than 3 deep");
  for (const std::string_view opening : {"[", "{", "- ", "? ", "a: {", "[{"}) {
    std::string deep;
    for (int i = 0; i < 20000; ++i) {
      deep += opening;
    }
    EXPECT_NE(refusal(deep), "") << opening;
  }
}

}  // namespace
}  // namespace cadre
