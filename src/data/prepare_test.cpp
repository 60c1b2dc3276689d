#include "data/prepare.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/random.h"
#include "data/support_test.h"
#include "device/thread_pool.h"

namespace cadre::data {
namespace {

using testing::all_documents;
using testing::all_tokens;
using testing::byte_encoder;
using testing::bytes_then_eos;
using testing::gzipped;
using testing::kVocabSize;
using testing::message_of;
using testing::put;
using testing::raw_bytes;
using testing::TemporaryFolder;
using testing::zstandard;

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    options_.dataset = {.encoder = byte_encoder(), .vocab_size = kVocabSize};
    options_.cache_directory = folder_ / "cache/deep";
  }

  PreparedSource prepared(const SourceSpec& spec) {
    Result<PreparedSource> result = prepare_source(spec, options_);
    CADRE_CHECK(result.ok(), result.ok() ? "" : result.error().message);
    return std::move(*result);
  }

  std::string refusal(const SourceSpec& spec) {
    const auto result = prepare_source(spec, options_);
    EXPECT_TRUE(result.ok() || result.error().kind == ErrorKind::kInput);
    return message_of(result);
  }

  // What the log says while `spec` is prepared.
  std::string log_of(const SourceSpec& spec) {
    std::FILE* stream = std::tmpfile();
    Log log({.stream = stream});
    options_.dataset.log = &log;
    prepared(spec);
    options_.dataset.log = nullptr;
    std::string text(static_cast<size_t>(std::ftell(stream)), '\0');
    std::rewind(stream);
    text.resize(std::fread(text.data(), 1, text.size(), stream));
    std::fclose(stream);
    return text;
  }

  TemporaryFolder folder_;
  PrepareOptions options_;
};

std::string random_text(uint64_t stream, size_t bytes) {
  std::string text;
  for (int64_t i = 0; text.size() < bytes; ++i) {
    const uint32_t word = random_word_at({.seed = 1, .stream = stream}, i);
    text += word % 9 == 0 ? '\n' : static_cast<char>('a' + word % 26);
  }
  return text;
}

TEST_F(PrepareTest, TokenizesEveryFormatIntoTheSameDocuments) {
  const std::vector<std::vector<int32_t>> wanted = {bytes_then_eos("one"), bytes_then_eos("two!")};
  const std::string jsonl = "{\"text\": \"one\"}\n{\"text\": \"two!\"}\n";
  const std::string json = "{\"tokens\": [[111,110,101,256],[116,119,111,33,256]]}";
  const std::string u16 = raw_bytes<uint16_t>({111, 110, 101, 256, 116, 119, 111, 33, 256});
  const std::string u32 = raw_bytes<uint32_t>({111, 110, 101, 256, 116, 119, 111, 33, 256});
  for (const auto& [name, text] :
       {std::pair{"a.jsonl", jsonl}, {"a.json", json}, {"a.u16", u16}, {"a.u32", u32}}) {
    for (const auto& [suffix, bytes] :
         {std::pair{"", text}, {".gz", gzipped(text)}, {".zst", zstandard(text)}}) {
      const auto source = prepared({.paths = {put(folder_, std::string(name) + suffix, bytes)}});
      EXPECT_EQ(all_documents(source.shards), wanted) << name << suffix;
      EXPECT_EQ(source.report.documents, 2);
      EXPECT_EQ(source.report.tokens, 9);
      EXPECT_FALSE(source.report.reused);
    }
  }
  put(folder_, "text/1.txt.gz", gzipped("one"));
  put(folder_, "text/2.txt", "two!");
  put(folder_, "text/3.txt", "");
  const auto source = prepared({.paths = {(folder_ / "text").string()}});
  EXPECT_EQ(all_documents(source.shards), wanted);
  EXPECT_EQ(source.report.files, 3);
  EXPECT_EQ(source.shards[0].documents()[1].text_bytes, 4u);
}

TEST_F(PrepareTest, MakesTheSameBytesWithAnyNumberOfThreads) {
  SourceSpec spec = {.name = "mixed", .paths = {}};
  for (uint64_t i = 0; i < 40; ++i) {
    put(folder_, "in/" + std::to_string(i) + ".txt", random_text(i, 1000 + 13 * i));
  }
  put(folder_, "in/long.txt", random_text(99, 9 << 20));
  spec.paths = {(folder_ / "in").string()};
  options_.shard_tokens = 20000;
  std::vector<std::vector<std::string>> bytes;
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    options_.dataset.pool = &pool;
    options_.cache_directory = folder_ / std::to_string(threads);
    bytes.emplace_back();
    for (const TokenShard& shard : prepared(spec).shards) {
      bytes.back().push_back(*read_file(shard.path()));
    }
    options_.dataset.pool = nullptr;
  }
  EXPECT_GE(bytes[0].size(), 3u);
  EXPECT_TRUE(bytes[0] == bytes[1]);
  EXPECT_TRUE(bytes[0] == bytes[2]);
}

TEST_F(PrepareTest, ReusesWhatIsThereAndBuildsAgainWhenAnythingChanges) {
  const std::string path = put(folder_, "a.jsonl", "{\"text\": \"one\", \"body\": \"1\"}\n");
  const SourceSpec spec = {.paths = {path}};
  EXPECT_FALSE(prepared(spec).report.reused);
  const PreparedSource again = prepared(spec);
  EXPECT_TRUE(again.report.reused);
  EXPECT_EQ(all_tokens(again.shards), bytes_then_eos("one"));

  EXPECT_FALSE(prepared({.paths = {path}, .field = "body"}).report.reused);
  options_.append_eos = false;
  EXPECT_FALSE(prepared(spec).report.reused);
  options_.append_eos = true;
  options_.dataset.encoder.hash = 18;
  EXPECT_FALSE(prepared(spec).report.reused);
  options_.dataset.vocab_size = 70000;  // wider tokens
  EXPECT_FALSE(prepared(spec).report.reused);
  EXPECT_TRUE(prepared(spec).report.reused);

  // Other content of the same size, with the old time put back.
  const auto time = std::filesystem::last_write_time(path);
  std::ofstream(path) << "{\"text\": \"two\", \"body\": \"1\"}\n";
  std::filesystem::last_write_time(path, time);
  const PreparedSource changed = prepared(spec);
  EXPECT_FALSE(changed.report.reused);
  EXPECT_EQ(all_tokens(changed.shards), bytes_then_eos("two"));
}

TEST_F(PrepareTest, BuildsDamagedShardsAgainAndSaysSo) {
  const SourceSpec spec = {.name = "web", .paths = {put(folder_, "a.txt", "some text")}};
  const PreparedSource first = prepared(spec);
  const std::filesystem::path shard = first.shards[0].path();
  const std::filesystem::path manifest = shard.parent_path() / "manifest.json";
  const std::string good = *read_file(shard);
  std::string flipped = good;
  flipped[66] = static_cast<char>(flipped[66] ^ 1);
  const std::vector<std::pair<std::filesystem::path, std::string>> damages = {
      {shard, flipped},
      {shard, good.substr(0, good.size() - 1)},
      {shard, ""},
      {manifest, "{\"key\": \"0\", \"documents\": 1, \"tokens\": 10, \"shards\": 1}"},
      {manifest, "{}"},
      {manifest, "[1]"},
      {manifest, "not json"}};
  for (const auto& [path, bytes] : damages) {
    ASSERT_TRUE(write_file(path, bytes));
    EXPECT_NE(log_of(spec).find("W rank=0 data: building again: "), std::string::npos) << bytes;
    EXPECT_EQ(*read_file(shard), good);
    EXPECT_TRUE(prepared(spec).report.reused);
  }
  std::filesystem::remove(shard);
  EXPECT_NE(log_of(spec).find("building again"), std::string::npos);
  std::filesystem::remove(manifest);
  EXPECT_NE(log_of(spec).find("building again"), std::string::npos);
  EXPECT_EQ(log_of(spec), "");
}

TEST_F(PrepareTest, LetsManyBuildAtOnce) {
  const SourceSpec spec = {.paths = {put(folder_, "a.txt", random_text(3, 3 << 20))}};
  std::vector<std::jthread> threads;
  std::vector<PreparedSource> results(6);
  for (auto& result : results) {
    threads.emplace_back([&] { result = prepared(spec); });
  }
  threads.clear();
  int built = 0;
  for (const auto& result : results) {
    built += result.report.reused ? 0 : 1;
    EXPECT_TRUE(all_tokens(result.shards) == all_tokens(results[0].shards));
  }
  EXPECT_EQ(built, 1);
  EXPECT_EQ(list_folder(options_.cache_directory)->size(), 1u);  // no locks, nothing temporary
}

TEST_F(PrepareTest, LeavesNothingBehindWhenTheInputIsBad) {
  const std::string bad = put(folder_, "a.jsonl", "{\"text\": \"one\"}\n{\"text\": 1}\n");
  EXPECT_NE(refusal({.paths = {bad}}).find("a.jsonl:2: the field"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

TEST_F(PrepareTest, RefusesIdsOutsideTheVocabularyWithTheirPlace) {
  const auto place = [this](std::string_view name, const std::string& text) {
    return refusal({.paths = {put(folder_, std::string(name), text)}});
  };
  EXPECT_NE(place("a.json", "[[1], [2, 257]]")
                .find("a.json: tokens[1][1]: token id 257, but ids of this model are below "
                      "vocab_size 257"),
            std::string::npos);
  EXPECT_NE(place("a.u16", raw_bytes<uint16_t>({1, 2, 300})).find("a.u16: token 2: token id 300"),
            std::string::npos);
  options_.dataset.vocab_size = 100;
  EXPECT_NE(place("a.txt", "az").find("a.txt: the tokenizer made token id 122, but"),
            std::string::npos);
  EXPECT_NE(place("a.jsonl", "\n{\"text\": \"z\"}").find("a.jsonl:2: the tokenizer made"),
            std::string::npos);
}

// A smaller model than the shards were made for: the place in the corpus is told, not the cache's.
TEST_F(PrepareTest, NoticesThatTheVocabularyShrank) {
  const SourceSpec spec = {.paths = {put(folder_, "a.json", "[[1], [2, 256]]")}};
  prepared(spec);
  options_.dataset.vocab_size = 256;
  EXPECT_NE(refusal(spec).find("a.json: tokens[1][1]: token id 256"), std::string::npos);
}

TEST_F(PrepareTest, RefusesEmptyCorpora) {
  EXPECT_NE(refusal({.name = "web", .paths = {put(folder_, "a.txt", "")}})
                .find("source \"web\" is empty: no tokens in its 1 files"),
            std::string::npos);
  EXPECT_NE(refusal({.paths = {put(folder_, "a.json", "[[], []]")}}).find("is empty"),
            std::string::npos);
}

TEST_F(PrepareTest, NeedsATokenizerForTextAndAnEosToAppend) {
  const std::string text = put(folder_, "a.txt", "x");
  const std::string tokens = put(folder_, "a.json", "[[1, 2]]");
  options_.dataset.encoder.eos.reset();
  EXPECT_NE(refusal({.paths = {text}}).find("names no EOS token"), std::string::npos);
  options_.append_eos = false;
  EXPECT_EQ(all_tokens(prepared({.paths = {text}}).shards), std::vector<int32_t>{'x'});
  options_.dataset.encoder = {};
  options_.append_eos = true;
  EXPECT_NE(refusal({.paths = {text}}).find("there is no tokenizer"), std::string::npos);
  EXPECT_EQ(all_tokens(prepared({.paths = {tokens}}).shards), (std::vector<int32_t>{1, 2}));
}

}  // namespace
}  // namespace cadre::data
