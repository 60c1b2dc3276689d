#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace cadre {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, CallsEveryTileOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t tiles = 0; tiles < 200; ++tiles) {
    std::vector<int> calls(static_cast<size_t>(tiles), 0);
    pool.run(tiles, [&](int64_t tile, int thread) {
      EXPECT_GE(thread, 0);
      EXPECT_LT(thread, pool.threads());
      ++calls[static_cast<size_t>(tile)];
    });
    EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), int64_t{0}), tiles);
    for (const int count : calls) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST_P(ThreadPoolTest, WakesThreadsThatFellAsleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int64_t> sum = 0;
    pool.run(100, [&](int64_t tile, int) { sum += tile; });
    EXPECT_EQ(sum, 4950);
  }
}

// Workers that are late for one round meet the next: each has its own body and number of tiles.
TEST_P(ThreadPoolTest, NeverMixesRounds) {
  ThreadPool pool(GetParam());
  for (int64_t round = 0; round < 3000; ++round) {
    const int64_t tiles = 2 + round % 5;
    std::atomic<int64_t> sum = 0;
    pool.run(tiles, [&, round](int64_t tile, int) { sum += round * 10 + tile; });
    ASSERT_EQ(sum, tiles * round * 10 + tiles * (tiles - 1) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace cadre
