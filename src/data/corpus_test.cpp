#include "data/corpus.h"

#include <gtest/gtest.h>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::message_of;
using testing::put;
using testing::TemporaryFolder;

class CorpusTest : public ::testing::Test {
 protected:
  // Names relative to the folder, with the letter of their format.
  std::string names(const std::vector<std::string>& paths,
                    const std::vector<std::string>& exclude = {}) {
    SourceSpec spec = {.exclude = exclude};
    for (const std::string& path : paths) {
      spec.paths.push_back(path.empty() ? folder_.path().string() : (folder_ / path).string());
    }
    const auto files = list_corpus(spec);
    if (!files) {
      return files.error().message;
    }
    std::string text;
    for (const CorpusFile& file : *files) {
      text += file.path.lexically_relative(folder_.path()).string() + " ";
    }
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(CorpusTest, TakesAFolderWithAllBelowItSortedAndWithoutHiddenNames) {
  for (const char* name : {"b.txt", "a/z.md", "a/b/c.txt", ".hidden", ".git/x", "B.txt"}) {
    put(folder_, name, "x");
  }
  EXPECT_EQ(names({""}), "B.txt a/b/c.txt a/z.md b.txt ");
  EXPECT_EQ(names({"b.txt", "a", ""}), "b.txt a/b/c.txt a/z.md B.txt ");  // each once
  EXPECT_EQ(names({".hidden"}), ".hidden ");
}

TEST_F(CorpusTest, ExpandsGlobs) {
  for (const char* name : {"a1.txt", "a2.txt", "a10.txt", "d/a3.txt", "d/e/a4.txt", "d/e/b.md"}) {
    put(folder_, name, "x");
  }
  EXPECT_EQ(names({"*.txt"}), "a1.txt a10.txt a2.txt ");
  EXPECT_EQ(names({"a?.txt"}), "a1.txt a2.txt ");
  EXPECT_EQ(names({"*/*.txt"}), "d/a3.txt ");
  EXPECT_EQ(names({"**/*.txt"}), "a1.txt a10.txt a2.txt d/a3.txt d/e/a4.txt ");
  EXPECT_EQ(names({"d/**"}), "d/a3.txt d/e/a4.txt d/e/b.md ");
  EXPECT_EQ(names({"**/e/*"}), "d/e/a4.txt d/e/b.md ");
  EXPECT_EQ(names({"**/*.txt"}, {"a10.txt", "*/e/*"}), "a1.txt a2.txt d/a3.txt ");
}

TEST_F(CorpusTest, SaysWhatIsNotThere) {
  put(folder_, "a.txt", "x");
  ASSERT_TRUE(make_folder(folder_ / "empty"));
  EXPECT_NE(names({"*.jsonl"}).find("no file matches \"" + (folder_ / "*.jsonl").string()),
            std::string::npos);
  EXPECT_NE(names({"missing/*.txt"}).find("no file matches"), std::string::npos);
  EXPECT_NE(names({"missing.txt"}).find("missing.txt\": No such file"), std::string::npos);
  EXPECT_NE(names({"empty"}).find("no file in the folder"), std::string::npos);
  EXPECT_NE(names({""}, {"*.txt"}).find("exclude takes them all"), std::string::npos);
}

TEST_F(CorpusTest, ReadsTheFormatFromTheSuffixBehindCompression) {
  const std::vector<std::pair<std::string, SourceFormat>> cases = {
      {"a.txt", SourceFormat::kText},      {"a.py.gz", SourceFormat::kText},
      {"a.jsonl", SourceFormat::kJsonl},   {"a.jsonl.zst", SourceFormat::kJsonl},
      {"a.ndjson", SourceFormat::kJsonl},  {"a.json.gz", SourceFormat::kTokensJson},
      {"a.u16", SourceFormat::kTokensU16}, {"a.u32.zst", SourceFormat::kTokensU32}};
  for (const auto& [name, format] : cases) {
    const auto files = list_corpus({.paths = {put(folder_, name, "x")}});
    ASSERT_TRUE(files) << name;
    EXPECT_EQ(files->front().format, format) << name;
    EXPECT_EQ(files->front().bytes, 1);
  }
  const std::string bin = put(folder_, "a.bin", "x");
  EXPECT_NE(message_of(list_corpus({.paths = {bin}})).find("tokens_u16 or tokens_u32"),
            std::string::npos);
  EXPECT_TRUE(list_corpus({.paths = {bin}, .format = SourceFormat::kTokensU16}));
}

TEST_F(CorpusTest, DoesNotFollowALinkToAFolderAbove) {
  put(folder_, "d/a.txt", "x");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "d/up");
  EXPECT_EQ(names({""}), "d/a.txt ");
  EXPECT_EQ(names({"**/*.txt"}), "d/a.txt ");
}

}  // namespace
}  // namespace cadre::data
