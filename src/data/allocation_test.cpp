// What is allocated: nothing in a step, and a bounded amount while a corpus is prepared.

#include <gtest/gtest.h>

#include "data/prepare.h"
#include "data/sampling.h"
#include "data/support_test.h"
#include "device/thread_pool.h"
#include "testing/allocations.h"

namespace cadre::data {
namespace {

TEST(Allocation, FillingABatchAllocatesNothing) {
  if (!cadre::testing::allocations_are_counted()) {
    GTEST_SKIP() << cadre::testing::kNotCounted;
  }
  const testing::TemporaryFolder folder;
  const std::vector<std::vector<int32_t>> documents(100000, {1, 2, 3, 4, 5, 6, 7});
  const auto first = testing::make_shards(folder / "a", documents, 2, 100000);
  const auto second = testing::make_shards(folder / "b", documents, 4, 300000);
  const TokenStream a(first, {});
  const TokenStream b(second, {});
  const std::vector<SampledSource> sources = {{.name = "a", .weight = 0.3, .tokens = &a},
                                              {.name = "b", .weight = 0.7, .tokens = &b}};
  for (const Packing packing : {Packing::kConcat, Packing::kDocument}) {
    const SamplingOptions options = {
        .sequence_length = 32, .packing = packing, .seed = 1, .vocab_size = 10};
    const auto training = make_training_stream(sources, options);
    const auto validation = make_validation_stream(sources, options);
    testing::OwnedBatch batch(4, 32);
    cadre::testing::count_allocations_anew();
    for (int64_t step = 0; step < 500; ++step) {  // pages are given back meanwhile
      training->fill(4 * step, batch.view());
      validation->fill(step, batch.view());
    }
    EXPECT_EQ(cadre::testing::allocations().blocks, 0);
    EXPECT_EQ(cadre::testing::allocations().mappings, 0);
  }
}

// One text of 24 MiB, 24 MiB in lines of JSON, and a list of a million tokens; two threads.
TEST(Allocation, PreparingALargeCorpusNeedsAFewMebibytesAThread) {
  if (!cadre::testing::allocations_are_counted()) {
    GTEST_SKIP() << cadre::testing::kNotCounted;
  }
  const testing::TemporaryFolder folder;
  const std::string line = "a line of plain text that is long enough to have a few words in it";
  std::string text;
  std::string jsonl;
  std::string json = "[[1";
  while (text.size() < (24u << 20)) {
    text.append(line).append("\n");
    jsonl.append("{\"text\": \"").append(line).append("\"}\n");
  }
  for (int i = 0; i < 1000000; ++i) {
    json += ",23";
  }
  testing::put(folder, "in/a.txt", text);
  testing::put(folder, "in/a.jsonl", jsonl);
  testing::put(folder, "in/a.json", json + "]]");
  for (std::string* used : {&text, &jsonl, &json}) {
    *used = std::string();
  }
  ThreadPool pool(2);
  PrepareOptions options;
  options.dataset.encoder = testing::byte_encoder();
  options.dataset.encoder.encode = [](std::vector<int32_t>& ids, std::string_view of, bool) {
    for (size_t i = 0; i < of.size(); i += 4) {  // tokens of four bytes, as they are on average
      ids.push_back(static_cast<unsigned char>(of[i]));
    }
  };
  options.dataset.vocab_size = testing::kVocabSize;
  options.dataset.pool = &pool;
  options.cache_directory = folder / "cache";
  cadre::testing::count_allocations_anew();
  const auto prepared = prepare_source({.paths = {(folder / "in").string()}}, options);
  const int64_t growth = cadre::testing::allocations().growth_bytes_max;
  ASSERT_TRUE(prepared) << testing::message_of(prepared);
  // A batch is 4 MiB a thread. Its ids take as much again, twice that while a vector grows; what is
  // read ahead, pieces that are half full, and the index come on top.
  EXPECT_LT(growth, int64_t{48} << 20);
}

TEST(Allocation, PreparingManySmallFilesNeedsWhatTheyHold) {
  if (!cadre::testing::allocations_are_counted()) {
    GTEST_SKIP() << cadre::testing::kNotCounted;
  }
  const testing::TemporaryFolder folder;
  for (int i = 0; i < 300; ++i) {
    testing::put(folder, "in/" + std::to_string(i) + ".txt", std::string(1000, 'x'));
  }
  PrepareOptions options;
  options.dataset = {.encoder = testing::byte_encoder(), .vocab_size = testing::kVocabSize};
  options.cache_directory = folder / "cache";
  cadre::testing::count_allocations_anew();
  const auto prepared = prepare_source({.paths = {(folder / "in").string()}}, options);
  const int64_t growth = cadre::testing::allocations().growth_bytes_max;
  ASSERT_TRUE(prepared) << testing::message_of(prepared);
  // 300 kB of text, four times as much in ids, and a few buffers.
  EXPECT_LT(growth, int64_t{12} << 20);
}

}  // namespace
}  // namespace cadre::data
