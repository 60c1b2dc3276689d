// tokenizer.json files that are wrong, on purpose or by accident: refused with a message, never
// more.

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_test_support.h"
#include "storage/file.h"

namespace cadre::data {
namespace {

std::string refusal_of_text(const std::string& text) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::parse(text, "test.json");
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

// What is wrong after `change`; the whole message, without the file's name.
template <typename Change>
std::string refusal_after(const Change& change) {
  Json json = small_tokenizer();
  change(json);
  const std::string message = refusal_of(json);
  return message.starts_with("test.json: ") ? message.substr(11) : message;
}

TEST(HostileTokenizer, NamesWhatIsNotJson) {
  EXPECT_NE(refusal_of_text("").find("test.json: "), std::string::npos);
  EXPECT_NE(refusal_of_text("{\"model\": ").find("test.json: byte"), std::string::npos);
  EXPECT_NE(refusal_of_text("{\"a\": \"\xFF\"}").find("not valid UTF-8"), std::string::npos);
  EXPECT_NE(refusal_of_text(std::string(1000000, '[')).find("nested more than 64"),
            std::string::npos);
  EXPECT_NE(refusal_of_text(R"({"a": 1, "a": 2})").find("\"a\" stands twice"), std::string::npos);
  EXPECT_EQ(refusal_of_text("[]"), "test.json: the file holds array, not an object");
  EXPECT_EQ(refusal_of_text("{}"), "test.json: there is no \"model\"");
}

TEST(HostileTokenizer, NamesAModelThatIsNotSupported) {
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["type"] = "Unigram"; }),
            "model.type \"Unigram\" is not supported, only \"BPE\"");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["dropout"] = 0.1; }),
            "model.dropout is not supported: ids would be random");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["end_of_word_suffix"] = "</w>"; }),
            "model.end_of_word_suffix is not supported");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["byte_fallback"] = 1; }),
            "model.byte_fallback is number, not true or false");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["unk_token"] = "<unk>"; }),
            "model.unk_token \"<unk>\" is not in the vocabulary");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"].erase("vocab"); }),
            "model.vocab is missing or not an object of ids");
  EXPECT_EQ(refusal_after([](Json& json) { json["model"]["vocab"] = Json::array({"a"}); }),
            "model.vocab is missing or not an object of ids");
}

TEST(HostileTokenizer, NamesIdsThatCannotBe) {
  const auto with_id = [](const Json& id) {
    return refusal_after([&id](Json& json) { json["model"]["vocab"]["a"] = id; });
  };
  EXPECT_EQ(with_id("0"), "model.vocab[\"a\"] is string, not an id");
  EXPECT_EQ(with_id(0.5), "model.vocab[\"a\"] is number, not an id");
  EXPECT_EQ(with_id(Json::object()), "model.vocab[\"a\"] is an object, not an id");
  EXPECT_EQ(with_id(1), "model.vocab gives the id 1 to \"a\" and to \"b\"");
  const std::string range = ", not an id from 0 to 65543 (8 tokens and at most 65536 unused ids)";
  EXPECT_EQ(with_id(-1), "model.vocab[\"a\"] is -1" + range);
  EXPECT_EQ(with_id(2000000000), "model.vocab[\"a\"] is 2000000000" + range);
  EXPECT_EQ(with_id(UINT64_MAX), "model.vocab[\"a\"] is 9223372036854775807" + range);
}

TEST(HostileTokenizer, NamesATokenThatStandsTwice) {
  std::string text = small_tokenizer().dump();
  text.replace(text.find("\"b\":1"), 5, "\"a\":1");
  EXPECT_EQ(refusal_of_text(text), "test.json: model.vocab has the token \"a\" twice");
}

TEST(HostileTokenizer, NamesMergesThatCannotBe) {
  const auto with_merge = [](const Json& merge) {
    return refusal_after([&merge](Json& json) { json["model"]["merges"][1] = merge; });
  };
  EXPECT_EQ(with_merge("a x"),
            "model.merges[1] joins \"a\" and \"x\", but model.vocab has no \"x\"");
  EXPECT_EQ(with_merge("a c"),
            "model.merges[1] joins \"a\" and \"c\", but model.vocab has no \"ac\"");
  EXPECT_EQ(with_merge("abc"), "model.merges[1] is \"abc\", not two tokens with one space between");
  EXPECT_EQ(with_merge("a b c"),
            "model.merges[1] is \"a b c\", not two tokens with one space between");
  EXPECT_EQ(with_merge(Json::array({"a"})), "model.merges[1] has 1 tokens, not two");
  EXPECT_EQ(with_merge(Json::array({"a", "b", "c"})), "model.merges[1] has more than two tokens");
  EXPECT_EQ(with_merge(Json::array({Json::array({"a"})})),
            "model.merges[1] holds an array, not text");
  EXPECT_EQ(with_merge(7), "model.merges[1] holds number, not text");
}

TEST(HostileTokenizer, NamesAddedTokensThatCannotBe) {
  const auto with_token = [](const Json& token) {
    return refusal_after([&token](Json& json) { json["added_tokens"].push_back(token); });
  };
  EXPECT_EQ(with_token({{"id", 8}, {"content", "<other>"}}),
            "the added token \"<other>\" has the id 8, which is that of \"<end>\"");
  EXPECT_EQ(with_token({{"id", 0}, {"content", "<other>"}}),
            "the added token \"<other>\" has the id 0, which is that of \"a\"");
  EXPECT_EQ(with_token({{"id", 9}, {"content", "<end>"}}),
            "the added token \"<end>\" has the id 9, but also 8");
  EXPECT_EQ(with_token({{"id", 2000000000}, {"content", "x"}}),
            "the added token \"x\" has the id 2000000000, far beyond the 10 tokens there are");
  EXPECT_EQ(with_token({{"id", -3}, {"content", "x"}}), "added_tokens[1].id is -3, not an id");
  EXPECT_EQ(with_token({{"id", 9}, {"content", ""}}), "added_tokens[1] has no \"content\"");
  EXPECT_EQ(with_token("x"), "added_tokens[1] is string, not an object");
}

TEST(HostileTokenizer, NamesPartsThatAreNotSupported) {
  const auto with_part = [](const char* part, const Json& value) {
    return refusal_after([&](Json& json) { json[part] = value; });
  };
  EXPECT_NE(with_part("normalizer", {{"type", "Precompiled"}}).find("\"Precompiled\""),
            std::string::npos);
  EXPECT_NE(with_part("pre_tokenizer", {{"type", "UnicodeScripts"}}).find("\"UnicodeScripts\""),
            std::string::npos);
  EXPECT_NE(with_part("decoder", {{"type", "CTC"}}).find("\"CTC\""), std::string::npos);
  EXPECT_NE(with_part("post_processor", {{"type", "Other"}}).find("\"Other\""), std::string::npos);
  EXPECT_EQ(with_part("normalizer", 7), "normalizer is number, not an object");
  EXPECT_EQ(with_part("decoder", Json::object()), "decoder has no \"type\"");
  EXPECT_EQ(with_part("pre_tokenizer", Json::parse(R"({"type": "Sequence", "pretokenizers": [
                {"type": "ByteLevel"}, {"type": "Digits"}]})")),
            "pre_tokenizer.pretokenizers[1]: \"Digits\" behind \"ByteLevel\" is not supported");
  EXPECT_NE(with_part("pre_tokenizer", Json::parse(R"({"type": "Split", "behavior": "Isolated",
                "pattern": {"Regex": "(?<=a)b"}})"))
                .find("(?<"),
            std::string::npos);
  EXPECT_NE(
      with_part("post_processor", Json::parse(R"({"type": "TemplateProcessing", "single": []})"))
          .find("exactly once"),
      std::string::npos);
}

TEST(HostileTokenizer, DoesNotLetTextGrowWithoutBound) {
  Json steps = Json::array();
  for (int i = 0; i < 40; ++i) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  const std::string problem = refusal_after([&steps](Json& json) {
    json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  });
  EXPECT_NE(problem.find("too many steps"), std::string::npos);
}

// Bytes of real files changed, cut and moved: a result or a message, in bounded time.
TEST(HostileTokenizer, SurvivesMutatedFiles) {
  for (const std::string name : {"llama3", "llama2", "deepseek", "unknown"}) {
    const Result<std::string> file = read_file(CADRE_TEST_DATA "/tokenizers/" + name + ".json");
    ASSERT_TRUE(file.ok());
    for (uint64_t stream = 0; stream < 400; ++stream) {
      const RandomKey key{.seed = 5, .stream = stream};
      std::string text = *file;
      const uint32_t changes = 1 + random_word_at(key, 0) % 4;
      for (uint32_t i = 0; i < changes; ++i) {
        const size_t at = random_word_at(key, 3 * i + 1) % text.size();
        const uint32_t what = random_word_at(key, 3 * i + 2);
        const size_t from = random_word_at(key, 3 * i + 3) % text.size();
        switch (what % 4) {
          case 0:
            text[at] = static_cast<char>(what >> 8);
            break;
          case 1:
            text.erase(at, 1 + (what >> 8) % 20);
            break;
          case 2:
            text.insert(at, text.substr(from, (what >> 8) % 40));
            break;
          default:
            text.replace(at, 1, std::to_string(static_cast<int>(what)));
            break;
        }
      }
      const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::parse(text, "mutated.json");
      if (tokenizer.ok()) {
        const std::vector<int32_t> ids = (*tokenizer)->encode("The tree, 123 \xC3\xA9\n\n <s> x");
        (*tokenizer)->decode(ids);
      } else {
        EXPECT_TRUE(tokenizer.error().message.starts_with("mutated.json"));
      }
    }
  }
}

}  // namespace
}  // namespace cadre::data
