// What is allocated, counted by replacing operator new in this test program: nothing in a step, and
// a bounded amount while a corpus is prepared.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/prepare.h"
#include "data/sampling.h"
#include "data/support_test.h"
#include "device/thread_pool.h"

namespace {
std::atomic<int64_t> allocations = 0;
std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> live_bytes_peak = 0;

void release(void* memory) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
}  // namespace

// Not inlined: the compiler would see free() meet new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  const auto usable = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = live_bytes.fetch_add(usable) + usable;
  int64_t peak = live_bytes_peak;
  while (now > peak && !live_bytes_peak.compare_exchange_weak(peak, now)) {
  }
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  release(memory);
}

namespace cadre::data {
namespace {

TEST(Allocation, FillingABatchAllocatesNothing) {
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
    const int64_t before = allocations;
    for (int64_t step = 0; step < 500; ++step) {  // pages are given back meanwhile
      training->fill(4 * step, batch.view());
      validation->fill(step, batch.view());
    }
    EXPECT_EQ(allocations - before, 0);
  }
}

// One text of 24 MiB, 24 MiB in lines of JSON, and a list of a million tokens; two threads.
TEST(Allocation, PreparingALargeCorpusNeedsAFewMebibytesAThread) {
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
  options.dataset.encoder.encode = [](std::vector<int32_t>& ids, std::string_view of) {
    for (size_t i = 0; i < of.size(); i += 4) {  // tokens of four bytes, as they are on average
      ids.push_back(static_cast<unsigned char>(of[i]));
    }
  };
  options.dataset.vocab_size = testing::kVocabSize;
  options.dataset.pool = &pool;
  options.cache_directory = folder / "cache";
  const int64_t before = live_bytes;
  live_bytes_peak = before;
  const auto prepared = prepare_source({.paths = {(folder / "in").string()}}, options);
  ASSERT_TRUE(prepared) << testing::message_of(prepared);
  // A batch is 4 MiB a thread. Its ids take as much again, twice that while a vector grows; what is
  // read ahead, pieces that are half full, and the index come on top.
  EXPECT_LT(live_bytes_peak - before, int64_t{48} << 20);
}

}  // namespace
}  // namespace cadre::data
