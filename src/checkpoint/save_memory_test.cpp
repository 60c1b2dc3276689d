// Saving and loading need no second copy of anything: no block of the heap over 64 KiB is asked
// for, and the buffers of pages are as large as one write.

#include <gtest/gtest.h>

#include "checkpoint/reader.h"
#include "checkpoint/small_checkpoint_test.h"
#include "storage/safe_writer.h"
#include "testing/allocations.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

TEST(CheckpointMemory, IsOneBufferHoweverLargeTheTensors) {
  if (!testing::allocations_are_counted()) {
    GTEST_SKIP() << testing::kNotCounted;
  }
  const testing::TemporaryFolder folder;
  const SmallModel small("", 30000);  // the embedding has 2.9 MB
  const CheckpointContents contents = small.contents();
  HeldTensor embedding(DType::kF32, small.model[0].second.view().shape);
  const std::vector<WantedTensor> wanted = {wanted_whole(small.model[0].first, embedding.view())};
  testing::count_allocations_anew();
  const Result<SavedCheckpoint> saved = save_checkpoint(folder.path(), 1, contents);
  EXPECT_EQ(testing::allocations().large_blocks, 0) << "saving";
  EXPECT_LE(testing::allocations().mapped_bytes_max, kWriteBufferBytes) << "saving";
  ASSERT_TRUE(saved) << saved.error().message;
  testing::count_allocations_anew();
  const Result<CheckpointReader> reader = CheckpointReader::open_model(saved->path);
  ASSERT_TRUE(reader->load(wanted, {.may_be_left_over = {"*"}}));
  EXPECT_EQ(testing::allocations().large_blocks, 0) << "loading";
  EXPECT_LE(testing::allocations().mapped_bytes_max, kWriteBufferBytes) << "loading";
}

}  // namespace
}  // namespace cadre
