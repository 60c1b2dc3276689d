// Saving and loading need no second copy of anything: no block of the heap over 64 KiB is asked
// for.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "checkpoint/reader.h"
#include "checkpoint/small_checkpoint_test.h"
#include "testing/temporary_folder.h"

namespace {
std::atomic<size_t> largest_block = 0;

void* counted(size_t bytes) {
  size_t largest = largest_block;
  while (bytes > largest && !largest_block.compare_exchange_weak(largest, bytes)) {
  }
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) {
    return block;
  }
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
// std::stable_sort asks in this way; without it a sanitizer would mix its allocator with this one.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete[](void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, size_t) noexcept {
  std::free(block);
}
void operator delete[](void* block, size_t) noexcept {
  std::free(block);
}

namespace cadre {
namespace {

TEST(CheckpointMemory, IsOneBufferHoweverLargeTheTensors) {
  const testing::TemporaryFolder folder;
  const SmallModel small("", 30000);  // the embedding has 2.9 MB
  const CheckpointContents contents = small.contents();
  HeldTensor embedding(DType::kF32, small.model[0].second.view().shape);
  const std::vector<WantedTensor> wanted = {wanted_whole(small.model[0].first, embedding.view())};
  largest_block = 0;
  const Result<SavedCheckpoint> saved = save_checkpoint(folder.path(), 1, contents);
  EXPECT_LE(largest_block, size_t{64} << 10) << "saving";
  ASSERT_TRUE(saved) << saved.error().message;
  largest_block = 0;
  const Result<CheckpointReader> reader = CheckpointReader::open_model(saved->path);
  ASSERT_TRUE(reader->load(wanted, {.may_be_left_over = {"*"}}));
  EXPECT_LE(largest_block, size_t{64} << 10) << "loading";
}

}  // namespace
}  // namespace cadre
