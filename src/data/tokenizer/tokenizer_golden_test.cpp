// Ids and text of small tokenizers against those of @huggingface/tokenizers, and Unicode's tables
// against Node (tests/data/tokenizers/README.md).

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "data/tokenizer/normalization.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "storage/file.h"

namespace cadre::data {
namespace {

const std::string kFolder = CADRE_TEST_DATA "/tokenizers/";

const Json& goldens() {
  static const Json json = [] {
    const Result<std::string> text = read_file(kFolder + "goldens.json");
    Result<Json> parsed = parse_json(text.value(), "goldens.json");
    return std::move(parsed).value();
  }();
  return json;
}

std::unique_ptr<Tokenizer> load(const std::string& name) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(kFolder + name + ".json");
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return std::move(tokenizer).value();
}

class TokenizerGolden : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, GivesTheIdsOfHuggingFace) {
  const std::unique_ptr<Tokenizer> tokenizer = load(GetParam());
  const Json& expected = goldens()["ids"][GetParam()];
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string text = goldens()["texts"][i];
    EXPECT_EQ(tokenizer->encode(text), expected[i].get<std::vector<int32_t>>()) << text;
  }
}

TEST_P(TokenizerGolden, DecodesAsHuggingFace) {
  const std::unique_ptr<Tokenizer> tokenizer = load(GetParam());
  const Json& expected = goldens()["decoded"][GetParam()];
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto ids = goldens()["ids"][GetParam()][i].get<std::vector<int32_t>>();
    std::string text = tokenizer->decode(ids, {.skip_special = true});
    if (GetParam() == "llama2" && text.starts_with("\xEF\xBB\xBF")) {
      text.erase(0,
                 3);  // the npm package loses U+FEFF among byte tokens, the Rust library does not
    }
    EXPECT_EQ(text, expected[i].get<std::string>()) << i;
  }
}

TEST_P(TokenizerGolden, StreamsTheSameTextInWholeCharacters) {
  const std::unique_ptr<Tokenizer> tokenizer = load(GetParam());
  for (const Json& list : goldens()["ids"][GetParam()]) {
    const auto ids = list.get<std::vector<int32_t>>();
    Tokenizer::Stream stream(*tokenizer, {});
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      std::string storage;
      EXPECT_EQ(valid_utf8(piece, storage), piece);
      text += piece;
    }
    text += stream.finish();
    EXPECT_EQ(text, tokenizer->decode(ids));
  }
}

TEST_P(TokenizerGolden, IsTheSameAfterSaving) {
  const std::unique_ptr<Tokenizer> tokenizer = load(GetParam());
  const std::string folder = testing::TempDir() + "tokenizer_golden_" + GetParam();
  ASSERT_TRUE(tokenizer->save(folder).ok());
  const Result<std::unique_ptr<Tokenizer>> again = Tokenizer::load(folder);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ((*again)->fingerprint(), tokenizer->fingerprint());
  for (const Json& text : goldens()["texts"]) {
    EXPECT_EQ((*again)->encode(text.get<std::string>()),
              tokenizer->encode(text.get<std::string>()));
  }
}

TEST_P(TokenizerGolden, GivesTheSameIdsToManyThreads) {
  const std::unique_ptr<Tokenizer> tokenizer = load(GetParam());
  const Json& texts = goldens()["texts"];
  std::array<std::vector<int32_t>, 4> results;
  {
    std::vector<std::jthread> threads;
    for (std::vector<int32_t>& ids : results) {
      threads.emplace_back([&tokenizer, &texts, &ids] {
        for (const Json& text : texts) {
          tokenizer->encode_append(text.get_ref<const std::string&>(), {}, ids);
        }
      });
    }
  }
  std::vector<int32_t> expected;
  for (const Json& ids : goldens()["ids"][GetParam()]) {
    const auto list = ids.get<std::vector<int32_t>>();
    expected.insert(expected.end(), list.begin(), list.end());
  }
  for (const std::vector<int32_t>& ids : results) {
    EXPECT_EQ(ids, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGolden,
                         testing::Values("gpt2", "llama3", "qwen3", "gpt4o", "deepseek", "llama2",
                                         "unknown"),
                         [](const auto& family) { return family.param; });

// FNV-1a over what `make` says of every code point, as make_goldens.mjs computes it.
template <typename Make>
std::string digest(const Make& make) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char32_t value = 0; value < kCodePoints; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) {
      continue;
    }
    std::string character;
    append_utf8(character, value);
    for (const char byte : make(character, value)) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    }
  }
  return std::to_string(hash);
}

TEST(UnicodeGolden, NormalizesEveryCharacterAsNode) {
  const std::vector<std::pair<std::string, NormalizationForm>> forms = {
      {"NFC", {.compose = true, .compatibility = false}},
      {"NFD", {.compose = false, .compatibility = false}},
      {"NFKC", {.compose = true, .compatibility = true}},
      {"NFKD", {.compose = false, .compatibility = true}}};
  for (const auto& [name, form] : forms) {
    const std::string hash = digest([&form = form](const std::string& character, char32_t) {
      std::string storage;
      const std::string text = "e\xCC\x81" + character + "\xCC\xA3\xCC\xA7\xE1\x85\xA1" + character;
      return std::string(normalized(text, form, storage));
    });
    EXPECT_EQ(hash, goldens()["normalized"][name]) << name;
  }
}

TEST(UnicodeGolden, LowersEveryCharacterAsNode) {
  const std::string hash = digest([](const std::string& character, char32_t) {
    std::string lower;
    append_lower_case("A" + character + "\xCE\xA3" + character + " ", lower);
    return lower;
  });
  EXPECT_EQ(hash, goldens()["lower_case"]);
}

TEST(UnicodeGolden, KnowsTheClassesOfEveryCharacterAsNode) {
  std::vector<std::vector<bool>> members;
  for (const std::string_view name : {"L", "N", "M", "P", "S", "Z", "C", "Lu", "Ll", "Lt",
                                      "White_Space", "Script=Han", "Alphabetic"}) {
    CodePointSet set;
    ASSERT_TRUE(property_set(name, set));
    members.emplace_back(kCodePoints, false);
    for (const CodePointRange& range : set) {
      std::fill(members.back().begin() + range.first, members.back().begin() + range.last + 1,
                true);
    }
  }
  const std::string hash = digest([&members](const std::string&, char32_t value) {
    std::string bits;
    for (const std::vector<bool>& member : members) {
      bits += member[value] ? '1' : '0';
    }
    return bits;
  });
  EXPECT_EQ(hash, goldens()["classes"]);
}

}  // namespace
}  // namespace cadre::data
