#include "kernels/grouped_matmul.h"

#include <algorithm>
#include <limits>

#include "kernels/matmul.h"
#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::kMeta;
using testing::Rig;
using testing::values_of;

class GroupedMatmulTest : public ::testing::TestWithParam<Target> {
 protected:
  Device device{.kind = DeviceKind::kCpu, .target = GetParam()};
  Rig rig{device, {.threads = 2}};
};
INSTANTIATE_TEST_SUITE_P(Targets, GroupedMatmulTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

// [E, rows, columns] with the last two swapped.
ConstTensor turned(const ConstTensor& stack) {
  return {stack.data,
          stack.dtype,
          {stack.shape[0], stack.shape[2], stack.shape[1]},
          {stack.strides[0], stack.strides[2], stack.strides[1]}};
}

TEST_P(GroupedMatmulTest, MultipliesEachRowWithTheMatrixOfItsGroup) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor b = rig.tensor({6, 1}, {1, 2, 100, 200, 3, 4}, dtype);  // groups of [2, 1]
    const Tensor a = rig.tensor({4, 2}, {1, 0, 0, 1, 1, 1, 7, 7}, dtype);
    const Tensor c = rig.tensor({4, 1}, {9, 9, 9, 9}, dtype);
    const Tensor offset = rig.ids({4}, {0, 2, 2, 3});  // the second group has no rows
    grouped_matmul(rig.context, c, a, b.split(0, 3), offset);
    EXPECT_EQ(values_of(c), (std::vector<float>{1, 2, 7, 0}));  // the last row is nobody's
  }
}

TEST_P(GroupedMatmulTest, AddsTheProductsOfEachGroupsRows) {
  const Tensor a = rig.tensor({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor b = rig.tensor({4, 1}, {1, 10, 100, 1000});
  const Tensor c = rig.tensor({6, 1}, {1, 1, 1, 1, 1, 1});
  grouped_matmul_add(rig.context, c.split(0, 3), a, b, rig.ids({4}, {0, 2, 2, 3}));
  EXPECT_EQ(values_of(c), (std::vector<float>{32, 43, 1, 1, 501, 601}));
}

// The workspace was taken for whichever group may be the largest; here every size occurs.
TEST_P(GroupedMatmulTest, GivesTheBitsOfAProductPerGroup) {
  constexpr int64_t kRows = 131, kDepth = 37, kColumns = 70;
  for (const DType dtype : kActivationDTypes) {
    for (const auto& ends : {std::vector<int32_t>{0, 0, 1, 131, 131},
                             {0, 131, 131, 131, 131},
                             {0, 17, 50, 51, 100},
                             {0, 2, 4, 6, 9}}) {
      Rig own(device, {.threads = 2});
      const Tensor a = own.random({kRows, kDepth}, 1, dtype);
      const Tensor b = own.random({4 * kColumns, kDepth}, 2, dtype);
      const Tensor g = own.random({kRows, kColumns}, 3, dtype);
      const Tensor offset = own.ids({5}, ends);
      const Tensor c = own.random({kRows, kColumns}, 4, dtype);
      const Tensor sums = own.random({4 * kColumns, kDepth}, 5);
      const Tensor expected = own.tensor({kRows, kColumns}, dtype);
      const Tensor expected_sums = copy_of(own, sums);
      for (int64_t e = 0; e < 4; ++e) {
        const int64_t first = ends[static_cast<size_t>(e)];
        const int64_t count = ends[static_cast<size_t>(e) + 1] - first;
        if (count > 0) {
          matmul(own.context, expected.rows(first, count), a.rows(first, count),
                 b.rows(e * kColumns, kColumns).transposed(), {});
          matmul_add(own.context, expected_sums.rows(e * kColumns, kColumns),
                     g.rows(first, count).transposed(), a.rows(first, count));
        }
      }
      grouped_matmul(own.context, c, a, turned(b.split(0, 4)), offset);
      grouped_matmul_add(own.context, sums.split(0, 4), g, a, offset);
      EXPECT_EQ(values_of(c), values_of(expected));
      EXPECT_EQ(values_of(sums), values_of(expected_sums));
    }
  }
}

// A group's rows decide how its product is cut; whatever they are, what was planned is enough.
TEST_P(GroupedMatmulTest, NeedsNoMoreWorkspaceThanARehearsalSays) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto peak = [&](const Device& on, const std::vector<int32_t>& ends) {
      Rig own(on, {.threads = 2, .arena_bytes = int64_t{64} << 20});
      const Tensor a = own.random({900, 260}, 1, dtype);
      const Tensor b = own.random({2 * 150, 260}, 2, dtype);
      const Tensor c = own.tensor({900, 150}, dtype);
      const Tensor offset = own.ids({3}, ends);
      grouped_matmul(own.context, c, a, turned(b.split(0, 2)), offset);
      grouped_matmul_add(own.context, own.tensor({2 * 150, 260}).split(0, 2), c, a, offset);
      return own.workspace.peak_bytes();
    };
    const Device meta{.kind = DeviceKind::kMeta, .target = GetParam()};
    const int64_t planned = peak(meta, {0, 450, 900});
    for (const int32_t middle : {0, 1, 5, 333, 899}) {
      EXPECT_EQ(peak(device, {0, middle, 900}), planned);
    }
  }
}

TEST(GroupedMatmul, BooksByShapesAlone) {
  Rig rig(kMeta);
  const Tensor a = rig.tensor({10, 4});
  const Tensor b = rig.tensor({6, 4});  // 2 groups of [3, 4]
  const Tensor c = rig.tensor({10, 3});
  const Tensor offset = rig.tensor({3}, DType::kI32);
  rig.trace.cut();
  grouped_matmul(rig.context, c, a, turned(b.split(0, 2)), offset);
  grouped_matmul_add(rig.context, b.split(0, 2), c, a, offset);
  const std::vector<BookedOp> expected = {{"grouped_matmul", 240, 160 + 96 + 12, 120},
                                          {"grouped_matmul_add", 240, 120 + 160 + 96 + 12, 96}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
