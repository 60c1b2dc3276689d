#include "data/documents.h"

#include <gtest/gtest.h>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::gzipped;
using testing::message_of;
using testing::put;
using testing::raw_bytes;
using testing::TemporaryFolder;
using testing::zstandard;

class DocumentsTest : public ::testing::Test {
 protected:
  CorpusFile file(const std::string& name, std::string_view text,
                  SourceFormat format = SourceFormat::kAuto) {
    const auto files = list_corpus({.paths = {put(folder_, name, text)}, .format = format});
    CADRE_CHECK(files.ok());
    return files->front();
  }

  std::vector<Piece> pieces(const CorpusFile& from, std::optional<int32_t> eos = std::nullopt) {
    std::vector<Piece> found;
    const Status status = read_pieces(from, {.eos = eos}, [&](Piece&& piece) {
      found.push_back(std::move(piece));
      return Status();
    });
    CADRE_CHECK(status.ok(), status.ok() ? "" : status.error().message);
    return found;
  }

  // The message without the folder.
  std::string refusal(const CorpusFile& from) {
    const Status status = read_pieces(from, {}, [](Piece&&) { return Status(); });
    std::string text = status ? "read" : status.error().message;
    const std::string folder = folder_.path().string() + "/";
    for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder)) {
      text.erase(at, folder.size());
    }
    return text;
  }

  std::string line_refusal(std::string_view text, const std::string& field = "text") {
    const CorpusFile from = file("a.jsonl", text);
    for (const Piece& piece : pieces(from)) {
      if (const auto found = text_of_line(piece, from, field); !found) {
        return found.error().message.substr(folder_.path().string().size() + 1);
      }
    }
    return "read";
  }

  TemporaryFolder folder_;
};

TEST_F(DocumentsTest, TakesAShortTextWholeHoweverItIsCompressed) {
  const std::string text = "One line.\nAnother, with \xC3\xA9.\n";
  for (const auto& [name, bytes] :
       {std::pair{"a.txt", text}, {"a.txt.gz", gzipped(text)}, {"a.txt.zst", zstandard(text)}}) {
    const auto found = pieces(file(name, bytes));
    ASSERT_EQ(found.size(), 1u) << name;
    EXPECT_EQ(found[0].text, text);
    EXPECT_TRUE(found[0].ends_document);
  }
}

// At no cut may a word of any pre-tokenizer be torn: all of them let a run of letters end before a
// line's end.
TEST_F(DocumentsTest, CutsALongTextBetweenALetterAndTheEndOfItsLine) {
  std::string text;
  for (int line = 0; text.size() < (5u << 20); ++line) {
    text += "line ";
    text += std::to_string(line);
    text += line % 7 == 0 ? " ends with a word" : " ends so.";
    text += line % 3 == 0 ? "\r\n" : "\n\n";
  }
  std::string joined;
  const auto found = pieces(file("a.txt", text));
  ASSERT_GE(found.size(), 5u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ends_document, i + 1 == found.size());
    EXPECT_LE(found[i].text.size(), 1u << 20);
    if (i + 1 < found.size()) {
      EXPECT_EQ(found[i].text.back(), 'd');
      EXPECT_TRUE(found[i + 1].text[0] == '\r' || found[i + 1].text[0] == '\n');
    }
    joined += found[i].text;
  }
  EXPECT_TRUE(joined == text);
}

TEST_F(DocumentsTest, CutsATextWithoutLinesBetweenCharacters) {
  std::string text;
  while (text.size() < (35u << 20)) {
    text += "\xE6\xBC\xA2\xE5\xAD\x97!";
  }
  std::string joined;
  for (const Piece& piece : pieces(file("a.txt", text))) {
    EXPECT_LE(piece.text.size(), 17u << 20);
    EXPECT_NE(static_cast<unsigned char>(piece.text[0]) & 0xC0u, 0x80u);
    joined += piece.text;
  }
  EXPECT_TRUE(joined == text);
}

TEST_F(DocumentsTest, RefusesBinaryFilesThatNobodyCalledText) {
  const std::string bytes(
      "\x7F"
      "ELF\0\0",
      6);
  EXPECT_NE(refusal(file("a.out", bytes)).find("\"a.out\" holds zero bytes"), std::string::npos);
  EXPECT_EQ(refusal(file("a.out", bytes, SourceFormat::kText)), "read");
}

TEST_F(DocumentsTest, ReadsALineOfJsonADocument) {
  const CorpusFile from = file("a.jsonl",
                               "{\"text\": \"one\\n\\u00e9\"}\r\n\n"
                               "{\"id\": 3, \"text\": \"\"}\n  \n{\"text\":\"last\"}");
  const auto found = pieces(from);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(*text_of_line(found[0], from, "text"), "one\n\xC3\xA9");
  EXPECT_EQ(*text_of_line(found[1], from, "text"), "");
  EXPECT_EQ(*text_of_line(found[2], from, "text"), "last");
  EXPECT_EQ(found[2].line, 5);
}

TEST_F(DocumentsTest, NamesTheLineOfJsonThatIsWrong) {
  const std::string good = "{\"text\": \"x\"}\n";
  EXPECT_EQ(line_refusal(good + "{\"text\": \"\xFF\"}\n"), "a.jsonl:2:11: not valid UTF-8");
  EXPECT_NE(line_refusal(good + good + "{\"text\": \"x\",}\n").find("a.jsonl:3:14: "),
            std::string::npos);
  EXPECT_EQ(line_refusal(good + "{\"content\": \"x\", \"id\": 1}\n"),
            "a.jsonl:2: the object has no field \"text\"; its fields are \"content\", \"id\"; set "
            "the source's field");
  EXPECT_EQ(line_refusal(good + "{\"text\": 3}\n"),
            "a.jsonl:2: the field \"text\" is no text, found number");
  EXPECT_EQ(line_refusal(good + "[1]\n"),
            "a.jsonl:2: expected an object with the field \"text\", found array");
  EXPECT_EQ(line_refusal("{\"content\": \"x\"}\n", "content"), "read");
}

TEST_F(DocumentsTest, ReadsListsOfTokens) {
  for (const char* text :
       {"[[1, 2], [], [70000]]", "{\"tokens\": [[1, 2], [], [70000]]}",
        "{\"note\": {\"tokens\": [[[9]]]}, \"tokens\": [[1,2],[],[70000]], \"more\": [[1.5]]}"}) {
    const auto found = pieces(file("a.json", text));
    ASSERT_EQ(found.size(), 3u) << text;
    EXPECT_EQ(found[0].ids, (std::vector<int32_t>{1, 2}));
    EXPECT_TRUE(found[1].ids.empty());
    EXPECT_EQ(found[2].ids, (std::vector<int32_t>{70000}));
    EXPECT_EQ(found[2].document, 2);
  }
}

TEST_F(DocumentsTest, NamesThePlaceInTokenListsThatIsWrong) {
  const auto json = [this](std::string_view text) { return refusal(file("a.json", text)); };
  EXPECT_EQ(json("[[1, 2], [3, -4]]"), "a.json: tokens[1][1]: expected a token id, found -4");
  EXPECT_EQ(json("[[1, 2.5]]"), "a.json: tokens[0][1]: expected a token id, found 2.5");
  EXPECT_EQ(json("[[1, [2]]]"), "a.json: tokens[0][1]: expected a token id, found a list");
  EXPECT_EQ(json("[[1], 2]"), "a.json: tokens[1]: expected a list of token ids, found 2");
  EXPECT_EQ(json("[[1], {}]"), "a.json: tokens[1]: expected a list of token ids, found an object");
  EXPECT_EQ(json("[[3000000000]]"), "a.json: 3000000000 is no token id");
  EXPECT_EQ(json("7"), "a.json: expected lists of token ids, found 7");
  EXPECT_EQ(json("{\"tokens\": {}}"),
            "a.json: expected a list of lists of token ids, found an object");
  EXPECT_EQ(json("{\"tokens\": 3}"), "a.json: expected lists of token ids, found 3");
  EXPECT_NE(json("{\"ids\": [[1]]}").find("{\"tokens\": [[...], ...]}"), std::string::npos);
  EXPECT_NE(json("{\"tokens\": [[1]], \"tokens\": [[2]]}").find("stands twice"), std::string::npos);
  EXPECT_NE(json("[[1, 2],\n [3,, 4]]").find("a.json: no valid JSON at line 2, column 5"),
            std::string::npos);
  EXPECT_NE(json("[[1, 2]").find("no valid JSON at line 1"), std::string::npos);
  EXPECT_NE(json("{\"a\": \"\xFF\", \"tokens\": [[1]]}").find("no valid JSON"), std::string::npos);
  EXPECT_NE(json(std::string(1000, '[')).find("found a list"), std::string::npos);
  EXPECT_NE(json("{\"a\": " + std::string(1000, '[')).find("more than 64 deep"), std::string::npos);
}

TEST_F(DocumentsTest, GivesALongListInPieces) {
  std::string text = "[[0";
  for (int i = 1; i < 600000; ++i) {
    text += ',';
    text += std::to_string(i);
  }
  text += "],[7]]";
  const auto found = pieces(file("a.json", text));
  ASSERT_EQ(found.size(), 4u);
  int32_t next = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].first_token, next);
    EXPECT_EQ(found[i].ends_document, i == 2);
    for (const int32_t id : found[i].ids) {
      ASSERT_EQ(id, next++);
    }
  }
  EXPECT_EQ(found[3].ids, std::vector<int32_t>{7});
}

TEST_F(DocumentsTest, CutsRawTokensBehindEveryEos) {
  const std::string narrow = raw_bytes<uint16_t>({5, 6, 9, 65535, 9, 7});
  const auto found = pieces(file("a.u16.gz", gzipped(narrow)), 9);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].ids, (std::vector<int32_t>{5, 6, 9}));
  EXPECT_EQ(found[1].ids, (std::vector<int32_t>{65535, 9}));
  EXPECT_EQ(found[2].ids, (std::vector<int32_t>{7}));
  EXPECT_EQ(found[2].first_token, 5);

  const std::string wide = raw_bytes<uint32_t>({5, 100000});
  const auto whole = pieces(file("a.u32", wide));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].ids, (std::vector<int32_t>{5, 100000}));
}

TEST_F(DocumentsTest, RefusesRawFilesOfAWrongSize) {
  EXPECT_EQ(refusal(file("a.u32", "12345")),
            "a.u32: 5 bytes are no multiple of the 4 bytes of a token; is the format right?");
  EXPECT_EQ(refusal(file("a.u32", raw_bytes<uint32_t>({1, 4000000000u}))),
            "a.u32: token 1: 4000000000 is no token id");
}

TEST_F(DocumentsTest, WalksThroughTheTextOfAllSources) {
  file("b.txt", "second");
  const std::string first = put(folder_, "a.jsonl", "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
  const std::vector<SourceSpec> sources = {{.paths = {first}, .field = "body"},
                                           {.paths = {(folder_ / "b.txt").string()}}};
  const auto source = text_of(sources);
  ASSERT_TRUE(source);
  std::vector<std::string> chunks;
  std::string chunk;
  for (auto more = (*source)(chunk); more && *more; more = (*source)(chunk)) {
    chunks.push_back(chunk);
  }
  EXPECT_EQ(chunks, (std::vector<std::string>{"one", "two", "second"}));
  const std::vector<SourceSpec> tokens = {{.paths = {put(folder_, "a.json", "[[1]]")}}};
  EXPECT_NE(message_of(text_of(tokens)).find("holds tokens"), std::string::npos);
}

}  // namespace
}  // namespace cadre::data
