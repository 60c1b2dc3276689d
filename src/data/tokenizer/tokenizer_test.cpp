#include "data/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer_test_support.h"
#include "storage/safe_writer.h"

namespace cadre::data {
namespace {

using Ids = std::vector<int32_t>;

Ids ids_of(const Json& json, std::string_view text, const EncodeOptions& options = {}) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = parse_tokenizer(json);
  EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
  return tokenizer.ok() ? (*tokenizer)->encode(text, options) : Ids{-1};
}

TEST(Tokenizer, MergesByRankAndLeavesOutBytesWithoutAToken) {
  EXPECT_EQ(ids_of(small_tokenizer(), "abc"), Ids{6});
  EXPECT_EQ(ids_of(small_tokenizer(), "babab a"), (Ids{1, 5, 5, 7}));
  EXPECT_EQ(ids_of(small_tokenizer(), "axb"), (Ids{0, 1}));  // as Hugging Face does without unk
}

TEST(Tokenizer, KeepsAnUnknownByteAsABarrierBetweenItsNeighbours) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array({"a b"});
  EXPECT_EQ(ids_of(json, "axbab"), (Ids{0, 1, 5}));
}

TEST(Tokenizer, PrefersAWholePieceToItsMergesOnlyIfItIgnoresMerges) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array({"a b"});
  EXPECT_EQ(ids_of(json, "abc"), (Ids{5, 2}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(ids_of(json, "abc"), Ids{6});
}

TEST(Tokenizer, FindsSpecialTokensInTextUnlessToldNotTo) {
  EXPECT_EQ(ids_of(small_tokenizer(), "a<end>b"), (Ids{0, 8, 1}));
  EXPECT_EQ(ids_of(small_tokenizer(), "a<end>b", {.parse_special = false}), (Ids{0, 1}));
}

TEST(Tokenizer, StillFindsOrdinaryAddedTokensWhenSpecialOnesAreText) {
  Json json = small_tokenizer();
  json["added_tokens"].push_back(
      {{"id", 9}, {"content", "<x>"}, {"special", false}, {"normalized", false}});
  EXPECT_EQ(ids_of(json, "a<x><end>", {.parse_special = false}), (Ids{0, 9}));
}

TEST(Tokenizer, TakesTheLongestOfTheAddedTokensThatBeginAtAPlace) {
  Json json = small_tokenizer();
  json["added_tokens"].push_back({{"id", 9}, {"content", "<end><end>"}, {"special", true}});
  EXPECT_EQ(ids_of(json, "<end><end><end>b"), (Ids{9, 8, 1}));
}

TEST(Tokenizer, AddedTokensTakeWhiteSpaceAndStayOutOfWords) {
  Json json = small_tokenizer();
  Json& token = json["added_tokens"][0];
  EXPECT_EQ(ids_of(json, "a <end> a"), (Ids{0, 3, 8, 7}));
  token["lstrip"] = true;
  EXPECT_EQ(ids_of(json, "a \n<end> a"), (Ids{0, 8, 7}));
  token["rstrip"] = true;
  EXPECT_EQ(ids_of(json, "a <end>  a"), (Ids{0, 8, 0}));
  token["single_word"] = true;
  EXPECT_EQ(ids_of(json, "a <end> a<end> <end>"), (Ids{0, 8, 0, 8}));
}

TEST(Tokenizer, LooksForNormalizedTokensInTheNormalizedText) {
  Json json = small_tokenizer();
  json["normalizer"] = {{"type", "Lowercase"}};
  json["added_tokens"][0] = {{"id", 8}, {"content", "<End>"}, {"normalized", true}};
  EXPECT_EQ(ids_of(json, "A<END>B"), (Ids{0, 8, 1}));
  json["added_tokens"][0]["normalized"] = false;
  EXPECT_EQ(ids_of(json, "A<END>B<End>"), (Ids{0, 1, 8}));
}

TEST(Tokenizer, ReadsInvalidUtf8AsReplacementCharacters) {
  Json json = small_tokenizer();
  Json& vocab = json["model"]["vocab"];
  vocab["ï"] = 9;  // EF BF BD is U+FFFD; "¿" and "½" are spelled as themselves
  vocab["¿"] = 10;
  vocab["½"] = 11;
  const Ids one = {9, 10, 11};
  const auto repeated = [&one](int times, int32_t last) {
    Ids ids;
    for (int i = 0; i < times; ++i) {
      ids.insert(ids.end(), one.begin(), one.end());
    }
    ids.push_back(last);
    return ids;
  };
  EXPECT_EQ(ids_of(json,
                   "\xFF"
                   "a"),
            repeated(1, 0));
  EXPECT_EQ(ids_of(json,
                   "\xE2\x82"
                   "a"),
            repeated(1, 0));  // cut off: one subpart
  EXPECT_EQ(ids_of(json,
                   "\xF0\x9F\x98"
                   "a"),
            repeated(1, 0));
  EXPECT_EQ(ids_of(json,
                   "\xC0\x80"
                   "a"),
            repeated(2, 0));  // overlong
  EXPECT_EQ(ids_of(json,
                   "\xED\xA0\x80"
                   "a"),
            repeated(3, 0));  // a surrogate
  EXPECT_EQ(ids_of(json,
                   "\xF5\x80\x80\x80"
                   "a"),
            repeated(4, 0));  // beyond U+10FFFF
  EXPECT_EQ(ids_of(json,
                   "\xE2\x28"
                   "a"),
            Ids({9, 10, 11, 0}));  // "(" has no token
}

TEST(Tokenizer, PutsTheTemplateAroundATextOnRequest) {
  Json json = small_tokenizer();
  json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}}, {"Sequence": {"id": "A"}},
                {"SpecialToken": {"id": "c", "type_id": 0}}]}]})");
  EXPECT_EQ(ids_of(json, "b"), (Ids{8, 1, 2}));
  EXPECT_EQ(ids_of(json, ""), (Ids{8, 2}));
  EXPECT_EQ(ids_of(json, "b", {.add_special_tokens = false}), Ids{1});
}

TEST(Tokenizer, PrefixesASpaceWhereByteLevelSaysSo) {
  Json json = small_tokenizer();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(ids_of(json, "a a"), (Ids{7, 7}));
  EXPECT_EQ(ids_of(json, "<end>a"), (Ids{8, 7}));
  EXPECT_EQ(ids_of(json, " a"), Ids{7});
}

// Merging by a queue gives what merging by search gives: "ab" again and again, in pieces of both
// kinds.
TEST(Tokenizer, MergesLongPiecesAsShortOnes) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = parse_tokenizer(small_tokenizer());
  ASSERT_TRUE(tokenizer.ok());
  for (const size_t repeats : {3u, 10u, 11u, 12u, 100u, 5000u}) {
    std::string text;
    Ids expected;
    for (size_t i = 0; i < repeats; ++i) {
      text += "abcb";
      expected.insert(expected.end(), {6, 1});
    }
    EXPECT_EQ((*tokenizer)->encode(text), expected) << repeats;
  }
}

TEST(Tokenizer, DecodesBytesAndHoldsBackHalfCharacters) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["Ã"] = 9;  // the byte C3; with A9 it is é
  const Result<std::unique_ptr<Tokenizer>> tokenizer = parse_tokenizer(json);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->decode(Ids{9, 4, 3, 0}), "\xC3\xA9 a");
  EXPECT_EQ((*tokenizer)->decode(Ids{4, 9, 8, 9}), "\xEF\xBF\xBD\xEF\xBF\xBD<end>\xEF\xBF\xBD");
  EXPECT_EQ((*tokenizer)->decode(Ids{0, 8, 1}, {.skip_special = true}), "ab");
  EXPECT_EQ((*tokenizer)->decode(Ids{-1, 0, 1 << 30}),
            "\xEF\xBF\xBD"
            "a\xEF\xBF\xBD");
  Tokenizer::Stream stream(**tokenizer, {});
  EXPECT_EQ(stream.push(0), "a");
  EXPECT_EQ(stream.push(9), "");
  EXPECT_EQ(stream.push(4), "\xC3\xA9");
  EXPECT_EQ(stream.push(9), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, KnowsItsSizeItsNamesAndItsSpecialTokens) {
  Json json = small_tokenizer();
  json["added_tokens"][0]["id"] = 20;
  const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::parse(
      json.dump(), "test.json",
      R"({"bos_token": null, "eos_token": {"content": "<end>", "lstrip": false}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocab_size(), 21);
  EXPECT_EQ((*tokenizer)->eos_id(), 20);
  EXPECT_EQ((*tokenizer)->bos_id(), std::nullopt);
  EXPECT_EQ((*tokenizer)->token_of_id(7), "Ġa");
  EXPECT_EQ((*tokenizer)->token_of_id(20), "<end>");
  EXPECT_EQ((*tokenizer)->token_of_id(15), std::nullopt);
  EXPECT_TRUE((*tokenizer)->is_special(20));
  EXPECT_FALSE((*tokenizer)->is_special(0));
}

TEST(Tokenizer, TakesBosAndEosFromTheFilesOfAModelFolder) {
  const std::filesystem::path folder = testing::TempDir() + "tokenizer_model_folder";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(write_file(folder / "tokenizer.json", small_tokenizer().dump()).ok());
  std::filesystem::remove(folder / "tokenizer_config.json");
  ASSERT_TRUE(
      write_file(folder / "config.json", R"({"bos_token_id": 2, "eos_token_id": [8, 50256, 1]})")
          .ok());
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(folder.string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos_id(), 2);
  EXPECT_EQ((*tokenizer)->eos_ids(), (Ids{8, 1}));  // there is no 50256
  ASSERT_TRUE(write_file(folder / "tokenizer_config.json", R"({"eos_token": "c"})").ok());
  tokenizer = Tokenizer::load((folder / "tokenizer.json").string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->eos_ids(), (Ids{2, 8, 1}));
}

TEST(Tokenizer, ChangesItsFingerprintWithWhatDecidesIds) {
  const auto fingerprint = [](const Json& json) {
    return parse_tokenizer(json).value()->fingerprint();
  };
  Json json = small_tokenizer();
  const uint64_t before = fingerprint(json);
  EXPECT_EQ(fingerprint(Json::parse(json.dump(4))), before);
  std::swap(json["model"]["merges"][0], json["model"]["merges"][2]);
  EXPECT_NE(fingerprint(json), before);
}

}  // namespace
}  // namespace cadre::data
