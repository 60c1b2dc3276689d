// A step may not allocate: counted by replacing operator new in this test program.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/sampling.h"
#include "data/support_test.h"

namespace {
std::atomic<int64_t> allocations = 0;
}

void* operator new(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
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

}  // namespace
}  // namespace cadre::data
