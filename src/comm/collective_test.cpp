#include "comm/collective.h"

#include "testing/test_support.h"

namespace cadre::comm {
namespace {

using testing::Rig;

TEST(Collective, IsANoOpInAGroupOfOne) {
  Rig rig(testing::kCpu);
  const Tensor values = rig.tensor({1}, {3});
  rig.trace.cut();
  make_recorded({.rank = 0, .size = 1})->all_reduce_sum(rig.context, values).wait();
  EXPECT_EQ(values.flat<float>()[0], 3.0f);
  EXPECT_EQ(rig.trace.cut(), Segment{});
}

TEST(Collective, BooksWhatAGroupWouldSend) {
  Rig rig(testing::kMeta);
  const Tensor values = rig.tensor({5});
  rig.trace.cut();
  make_recorded({.rank = 1, .size = 4})->all_reduce_max(rig.context, values).wait();
  const std::vector<BookedMessage> expected = {{"all_reduce_max", 20, 4}};
  EXPECT_EQ(rig.trace.cut().messages, expected);
}

TEST(Collective, RefusesToBeForgotten) {
  EXPECT_DEATH({ const Pending forgotten([] {}); }, "never waited for");
}

}  // namespace
}  // namespace cadre::comm
