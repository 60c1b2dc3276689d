#include "data/tokenizer_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::message_of;
using testing::put;
using testing::TemporaryFolder;

class TokenizerCacheTest : public ::testing::Test {
 protected:
  TokenizerCacheTest() {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      text += "the cat sat on the mat " + std::to_string(i) + "\n";
    }
    sources_ = {{.paths = {put(folder_, "a.txt", text)}}};
    options_ = {.vocab_size = 265, .cache_directory = folder_ / "cache/deep"};
  }

  std::unique_ptr<Tokenizer> trained() {
    auto result = trained_tokenizer(sources_, options_);
    CADRE_CHECK(result.ok(), message_of(result));
    return *std::move(result);
  }

  std::vector<std::string> cached() { return *list_folder(folder_ / "cache/deep"); }

  TemporaryFolder folder_;
  std::vector<SourceSpec> sources_;
  TrainedTokenizerOptions options_;
};

TEST_F(TokenizerCacheTest, TrainsOnceForTheSameTextAndSize) {
  const auto first = trained();
  ASSERT_EQ(cached().size(), 1u);  // no lock, nothing temporary
  const auto file = options_.cache_directory / cached()[0] / "tokenizer.json";
  const auto written = std::filesystem::last_write_time(file);
  const auto second = trained();
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  EXPECT_EQ(second->fingerprint(), first->fingerprint());
  EXPECT_EQ(second->eos_id(), first->eos_id());
  EXPECT_TRUE(first->eos_id().has_value());
}

TEST_F(TokenizerCacheTest, TrainsAgainWhenTextOrSizeChange) {
  trained();
  options_.vocab_size = 270;
  EXPECT_EQ(trained()->vocab_size(), 270);
  EXPECT_EQ(cached().size(), 2u);
  sources_.push_back({.paths = {put(folder_, "b.txt", "more text, more text, more text\n")}});
  trained();
  EXPECT_EQ(cached().size(), 3u);
  std::ofstream(folder_ / "b.txt", std::ios::app) << "and more\n";
  trained();
  EXPECT_EQ(cached().size(), 4u);
}

TEST_F(TokenizerCacheTest, TrainsAgainWhatCannotBeRead) {
  const auto fingerprint = trained()->fingerprint();
  const auto file = options_.cache_directory / cached()[0] / "tokenizer.json";
  std::ofstream(file) << "{\"model\":";
  EXPECT_EQ(trained()->fingerprint(), fingerprint);
  EXPECT_EQ(cached().size(), 1u);
  EXPECT_TRUE(Tokenizer::load(file.string()).ok());
}

TEST_F(TokenizerCacheTest, LeavesNothingOfARefusedRun) {
  {
    CacheUndo undo(options_.cache_directory);
    options_.undo = &undo;
    trained();
    EXPECT_EQ(cached().size(), 1u);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
  {
    CacheUndo undo(options_.cache_directory);
    options_.undo = &undo;
    trained();
    undo.keep();
  }
  EXPECT_EQ(cached().size(), 1u);
  {
    CacheUndo undo(options_.cache_directory);  // what was there before is not this run's
    options_.undo = &undo;
    trained();
  }
  EXPECT_EQ(cached().size(), 1u);
  options_.undo = nullptr;
  put(folder_, "bad.u16", "ab");
  sources_.push_back({.paths = {(folder_ / "bad.u16").string()}});
  EXPECT_NE(message_of(trained_tokenizer(sources_, options_)).find("holds tokens"),
            std::string::npos);
  EXPECT_EQ(cached().size(), 1u);
}

TEST_F(TokenizerCacheTest, KeepsWhatWasMadeOfALargeInput) {
  const auto made = [&](const char* name) {
    const auto path = folder_ / "cache" / name;
    CADRE_CHECK(make_folder(path).ok());
    return path;
  };
  {
    CacheUndo undo(folder_ / "cache");
    undo.add(made("small"), CacheUndo::kInputBytesKept - 1);
    undo.add(made("large"), CacheUndo::kInputBytesKept);
  }
  EXPECT_EQ(*list_folder(folder_ / "cache"), std::vector<std::string>{"large"});
}

}  // namespace
}  // namespace cadre::data
