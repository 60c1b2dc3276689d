#include "device/arena.h"

#include <gtest/gtest.h>

#include <memory>

namespace cadre {
namespace {

constexpr Arena::Options kFourBlocks{.category = MemoryCategory::kActivations,
                                     .capacity_bytes = 4 * kAlignment};

class ArenaTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<MemorySource> source =
      GetParam() ? std::unique_ptr<MemorySource>(std::make_unique<MetaMemory>())
                 : std::make_unique<HeapMemory>();
  Trace trace;
};

// The same on every source, so that the high-water mark of a rehearsal is that of the run.
TEST_P(ArenaTest, HandsOutAlignedAddressesAndBooksThem) {
  Arena arena(*source, trace, kFourBlocks);
  const Arena::Block first = arena.allocate(1);
  { const Arena::Block second = arena.allocate(kAlignment); }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % kAlignment, 0u);
  EXPECT_EQ(arena.peak_bytes(), 2 * kAlignment);
  EXPECT_EQ(trace.cut().of(MemoryCategory::kActivations),
            (BookedMemory{.bytes_net = kAlignment, .bytes_peak = 2 * kAlignment}));
}

TEST_P(ArenaTest, ReusesTheLowestGapThatFits) {
  Arena arena(*source, trace, kFourBlocks);
  Arena::Block a = arena.allocate(kAlignment);
  Arena::Block b = arena.allocate(kAlignment);
  Arena::Block c = arena.allocate(kAlignment);
  const std::byte* start = a.data();
  a = {};
  EXPECT_EQ(arena.allocate(kAlignment).data(), start);
  b = {};
  EXPECT_EQ(arena.allocate(2 * kAlignment).data(), start);  // the two gaps became one
  EXPECT_EQ(arena.used_bytes(), kAlignment);
}

TEST_P(ArenaTest, RefusesMoreThanItHolds) {
  Arena arena(*source, trace, kFourBlocks);
  const Arena::Block one = arena.allocate(1);
  EXPECT_DEATH(static_cast<void>(arena.allocate(3 * kAlignment + 1)),
               "activations arena of 256 bytes has 64 in use, asked for 256");
}

INSTANTIATE_TEST_SUITE_P(HeapAndMeta, ArenaTest, ::testing::Bool());

}  // namespace
}  // namespace cadre
