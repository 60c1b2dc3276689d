#include "comm/world.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/socket.h"
#include "testing/test_support.h"

namespace cadre::comm {
namespace {

using testing::kCpu;
using testing::Rig;

TEST(World, NeedsNobodyForOneRank) {
  const Result<World> world = join_world({.position = {}});
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->group->size(), 1);
}

TEST(World, JoinsTheRanksOfOneHostBySharedMemory) {
  const int port = [] {
    const Result<net::Socket> socket = net::listen_on(0);
    return net::port_of(*socket);
  }();
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([rank, port] {
      Result<World> world = join_world(
          {.position = {.rank = rank, .size = 3}, .host = "127.0.0.1", .port = port, .token = "t"});
      ASSERT_TRUE(world.ok()) << world.error().message;
      ASSERT_NE(world->shared, nullptr);
      Rig rig(kCpu);
      const Tensor values = rig.tensor({2}, {1.0f, static_cast<float>(rank)});
      world->group->all_reduce_sum(rig.context, values).wait();
      EXPECT_EQ(testing::values_of(values), (std::vector<float>{3.0f, 3.0f}));
    });
  }
}

}  // namespace
}  // namespace cadre::comm
