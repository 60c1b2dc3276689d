#include "data/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::byte_encoder;
using testing::filled;
using testing::kEos;
using testing::kVocabSize;
using testing::message_of;
using testing::OwnedBatch;
using testing::put;
using testing::TemporaryFolder;

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    spec_.sequence_length = 8;
    spec_.cache_directory = (folder_ / "cache").string();
  }

  // A JSONL file of documents "NAME 0", "NAME 1", ...
  SourceSpec source(const std::string& name, int documents) {
    std::string text;
    for (int i = 0; i < documents; ++i) {
      text += "{\"text\": \"";
      text += name;
      text += ' ';
      text += std::to_string(i);
      text += "\"}\n";
    }
    return {.name = name, .paths = {put(folder_, name + ".jsonl", text)}};
  }

  Result<std::unique_ptr<Dataset>> open() {
    return Dataset::open(spec_, {.encoder = byte_encoder(), .vocab_size = kVocabSize});
  }

  std::unique_ptr<Dataset> opened() {
    auto dataset = open();
    CADRE_CHECK(dataset.ok(), message_of(dataset));
    return std::move(*dataset);
  }

  // The documents that begin and end in the samples of the stream, as text.
  static std::set<std::string> documents(SampleStream& stream, int64_t samples) {
    std::set<std::string> found;
    std::string text;
    for (const int32_t id : filled(stream, 0, samples).tokens) {
      if (id == kEos) {
        found.insert(std::exchange(text, {}));
      } else {
        text += static_cast<char>(id);
      }
    }
    return found;
  }

  TemporaryFolder folder_;
  DataSpec spec_;
};

TEST_F(DatasetTest, LeaksNoDocumentFromValidationIntoTraining) {
  spec_.sources = {source("a", 300), source("b", 200)};
  spec_.sources.push_back(spec_.sources[0]);  // the same again
  spec_.validation_fraction = 0.2;
  spec_.shuffle = false;
  const auto dataset = opened();
  const auto validation = dataset->validation();
  const auto validating = documents(*validation, validation->samples_per_epoch());
  EXPECT_NEAR(static_cast<double>(validating.size()), 100, 35);
  spec_.sources.resize(1);
  spec_.sources[0].weight = 1.0;
  const auto first = opened();
  const auto training = first->training(1);
  const auto trained = documents(*training, training->samples_per_epoch());
  EXPECT_GT(trained.size(), 200u);
  for (const std::string& text : trained) {
    EXPECT_FALSE(validating.contains(text)) << text;
  }
  ASSERT_EQ(dataset->reports().size(), 3u);
  EXPECT_EQ(dataset->reports()[1].documents, 200);
  EXPECT_TRUE(dataset->reports()[2].reused);
}

TEST_F(DatasetTest, CountsTheTextBehindTheValidationTokens) {
  spec_.sources = {source("a", 30)};
  spec_.validation = {source("valid", 12)};
  const auto dataset = opened();
  const auto validation = dataset->validation();
  const auto texts = documents(*validation, validation->samples_per_epoch());
  EXPECT_EQ(texts.size(), 12u);
  EXPECT_EQ(dataset->validation_text_bytes(), 10 * 7 + 2 * 8);  // "valid 0", "valid 10"
  spec_.sources.clear();
  EXPECT_EQ(opened()->training(1), nullptr);
}

TEST_F(DatasetTest, HasNoValidationAtFractionZero) {
  spec_.sources = {source("a", 30)};
  spec_.validation_fraction = 0.0;
  const auto dataset = opened();
  EXPECT_EQ(dataset->validation(), nullptr);
  EXPECT_EQ(dataset->training(1)->samples_per_epoch(), (10 * 4 + 20 * 5 - 1) / 8);
}

TEST_F(DatasetTest, RefusesTooLittleText) {
  spec_.sources = {source("a", 3)};
  spec_.sequence_length = 12;
  spec_.validation_fraction = 0.0;
  EXPECT_NE(message_of(open()).find("source \"a\" has 12 tokens to train on, fewer than one "
                                    "sequence and the token after it (13)"),
            std::string::npos);
  spec_.validation_fraction = 0.3;
  EXPECT_NE(message_of(open()).find("(of 12, after the split by validation_fraction 0.3)"),
            std::string::npos);
  spec_.sources = {{.paths = {put(folder_, "one.txt", "a short text")}}};
  EXPECT_NE(message_of(open()).find("has 9 tokens to train on (of 13, after the split by "
                                    "validation_fraction 0.3)"),
            std::string::npos);
  spec_.sources.clear();
  EXPECT_NE(message_of(open()).find("no sources"), std::string::npos);
}

TEST_F(DatasetTest, ValidatesOnTheEndOfATextWithoutLines) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += static_cast<char>('a' + i * i % 23);
  }
  spec_.sources = {{.paths = {put(folder_, "one.txt", text)}}};
  spec_.validation_fraction = 0.1;
  spec_.shuffle = false;
  const auto dataset = opened();
  const auto training = dataset->training(1);
  const auto validation = dataset->validation();
  // 200 letters and the end of the text: 181 train, 20 validate.
  EXPECT_EQ(training->samples_per_epoch(), (181 - 1) / 8);
  const OwnedBatch last = filled(*training, training->samples_per_epoch() - 1, 1);
  EXPECT_EQ(last.tokens[0], text[168]);
  EXPECT_EQ(last.targets[7], text[176]);
  const OwnedBatch held_out = filled(*validation, 0, 3);
  EXPECT_EQ(held_out.tokens[0], text[181]);
  EXPECT_EQ(held_out.tokens[18], text[199]);
  EXPECT_EQ(held_out.targets[18], kEos);
}

TEST_F(DatasetTest, TakesBackTheShardsOfAGoodSourceWhenALaterOneIsBad) {
  spec_.sources = {source("a", 30), {.paths = {put(folder_, "bad.jsonl", "{\"text\": \n")}}};
  const auto open_with_undo = [this] {
    CacheUndo undo(spec_.cache_directory);
    return Dataset::open(spec_,
                         {.encoder = byte_encoder(), .vocab_size = kVocabSize, .undo = &undo});
  };
  EXPECT_NE(message_of(open_with_undo()).find("bad.jsonl:1"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(spec_.cache_directory));
  // Without it the first source is complete in the cache, and nothing of the second is.
  EXPECT_FALSE(open().ok());
  EXPECT_EQ((*list_folder(spec_.cache_directory)).size(), 1u);
  spec_.sources.pop_back();
  EXPECT_TRUE(opened()->reports()[0].reused);
}

TEST_F(DatasetTest, ValidatesOnTheLastLinesOfALoneTextFile) {
  std::string text;
  for (int line = 100; line < 200; ++line) {
    text += "line " + std::to_string(line) + "\n";
  }
  spec_.sources = {{.paths = {put(folder_, "one.txt", text)}}};
  spec_.validation_fraction = 0.0123;  // of 901 tokens: 11, and the last line has 10 with its EOS
  spec_.shuffle = false;
  TextEncoder encoder = byte_encoder();
  encoder.ends_line = [](int32_t id) { return id == '\n'; };
  const auto dataset = Dataset::open(spec_, {.encoder = encoder, .vocab_size = kVocabSize});
  ASSERT_TRUE(dataset.ok()) << message_of(dataset);
  const auto validation = (*dataset)->validation();
  const auto held_out = documents(*validation, validation->samples_per_epoch());
  EXPECT_EQ(held_out, std::set<std::string>{"line 199\n"});
  EXPECT_EQ((*dataset)->validation_text_bytes(), 0);  // not known
  const auto training = (*dataset)->training(1);
  EXPECT_EQ(training->samples_per_epoch(), (99 * 9 - 1) / 8);
  const auto tokens = filled(*training, 0, training->samples_per_epoch()).tokens;
  std::string trained;
  for (const int32_t id : tokens) {
    trained += static_cast<char>(id);
  }
  EXPECT_EQ(trained, text.substr(0, trained.size()));
}

TEST_F(DatasetTest, RefusesAValidationWithoutATarget) {
  spec_.sources = {source("a", 30)};
  spec_.validation = {{.paths = {put(folder_, "v.json", "[[5]]")}}};
  EXPECT_NE(message_of(open()).find("validation has 1 tokens, too few for one target"),
            std::string::npos);
}

}  // namespace
}  // namespace cadre::data
