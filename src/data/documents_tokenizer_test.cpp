// Texts are tokenized in parts; with the tokenizers themselves, not only by the rule for the cuts.

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/random.h"
#include "data/documents.h"
#include "data/support_test.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trainer.h"
#include "storage/file.h"

namespace cadre::data {
namespace {

using testing::put;
using testing::TemporaryFolder;

// Words, numbers, punctuation, contractions, several scripts, and all kinds of white space.
std::string mixed_text(size_t bytes) {
  const std::vector<std::string> parts = {"word",
                                          "Another",
                                          "don't",
                                          "HE'LL",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\n\n",
                                          "\r\n",
                                          " \n ",
                                          "\t",
                                          "123",
                                          "7",
                                          ".",
                                          ",",
                                          "--",
                                          "(x)",
                                          "\xC3\xA9t\xC3\xA9",
                                          "\xE6\xBC\xA2\xE5\xAD\x97",
                                          "\xF0\x9F\x98\x80",
                                          "e\xCC\x81",
                                          "\xC2\xA0",
                                          "end\n",
                                          "so.\n",
                                          "it\r\n"};
  std::string text;
  for (int64_t i = 0; text.size() < bytes; ++i) {
    text += parts[random_word_at({.seed = 8, .stream = 1}, i) % parts.size()];
  }
  return text;
}

std::vector<int32_t> ids_of_parts(const Tokenizer& tokenizer, const CorpusFile& file) {
  std::vector<int32_t> ids;
  int pieces = 0;
  const Status read = read_pieces(file, {}, [&](Piece&& piece) {
    EXPECT_EQ(piece.begins_document, pieces == 0);
    tokenizer.encode_append(
        piece.text, {.add_special_tokens = false, .continues = !piece.begins_document}, ids);
    ++pieces;
    return Status();
  });
  EXPECT_TRUE(read);
  EXPECT_GE(pieces, 3);
  return ids;
}

TEST(DocumentsTokenizer, GivesPartsOfATextTheIdsOfTheWhole) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(3 << 20);
  const auto files = list_corpus({.paths = {put(folder, "a.txt", text)}});
  ASSERT_TRUE(files);
  for (const PreTokenization kind : {PreTokenization::kGpt2, PreTokenization::kLlama3}) {
    bool given = false;
    const auto tokenizer = train_tokenizer(
        [&](std::string& chunk) -> Result<bool> {
          chunk = text.substr(0, 200000);
          return !std::exchange(given, true);
        },
        {.vocab_size = 600, .pre_tokenization = kind});
    ASSERT_TRUE(tokenizer) << testing::message_of(tokenizer);
    EXPECT_TRUE(ids_of_parts(**tokenizer, files->front()) ==
                (*tokenizer)->encode(text, {.add_special_tokens = false}));
  }
}

// Llama-2's puts a space in front of a text, by its normalizer or, in newer files, by Metaspace: in
// front of the first part alone.
TEST(DocumentsTokenizer, PutsNoSpaceInFrontOfPartsThatGoOn) {
  const TemporaryFolder folder;
  const std::string text = mixed_text(3 << 20);
  const auto files = list_corpus({.paths = {put(folder, "a.txt", text)}});
  ASSERT_TRUE(files);
  const Result<Json> llama2 =
      parse_json(*read_file(std::string(CADRE_TEST_DATA) + "/tokenizers/llama2.json"), "llama2");
  ASSERT_TRUE(llama2);
  for (const char* scheme : {"", "first", "always"}) {
    Json json = *llama2;
    if (*scheme != 0) {
      json["normalizer"] = nullptr;
      json["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", "\u2581"},
                               {"prepend_scheme", scheme},
                               {"split", false}};
    }
    const auto tokenizer = Tokenizer::parse(json.dump(), "llama2.json");
    ASSERT_TRUE(tokenizer) << testing::message_of(tokenizer);
    EXPECT_TRUE(ids_of_parts(**tokenizer, files->front()) ==
                (*tokenizer)->encode(text, {.add_special_tokens = false}))
        << scheme;
  }
}

}  // namespace
}  // namespace cadre::data
