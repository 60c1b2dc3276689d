#include "kernels/expert_rows.h"

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::kMeta;
using testing::Rig;
using testing::values_of;

class ExpertRowsTest : public ::testing::TestWithParam<Target> {
 protected:
  ExpertRows rows_of(int64_t tokens, int64_t slots, int64_t experts, int64_t rows) {
    return {.slot_R = rig.tensor({rows}, DType::kI32),
            .row_TK = rig.tensor({tokens, slots}, DType::kI32),
            .offset_E1 = rig.tensor({experts + 1}, DType::kI32)};
  }

  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = 2}};
};
INSTANTIATE_TEST_SUITE_P(Targets, ExpertRowsTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(ExpertRowsTest, SortsSlotsByExpertAndKeepsTheirOrder) {
  const ExpertRows rows = rows_of(3, 2, 4, 6);
  expert_rows(rig.context, rows, rig.ids({3, 2}, {3, 0, 0, 3, 2, 0}), {});
  EXPECT_EQ(values_of(rows.offset_E1), (std::vector<float>{0, 3, 3, 4, 6}));  // expert 1: nothing
  EXPECT_EQ(values_of(rows.slot_R), (std::vector<float>{1, 2, 5, 4, 0, 3}));
  EXPECT_EQ(values_of(rows.row_TK), (std::vector<float>{4, 0, 1, 5, 3, 2}));
}

TEST_P(ExpertRowsTest, LeavesOutTheLastSlotsOfASequenceBeyondTheCapacity) {
  // Two sequences of two tokens; expert 0 has three slots in the first, and takes two.
  const ExpertRows rows = rows_of(4, 2, 2, 8);
  expert_rows(rig.context, rows, rig.ids({4, 2}, {0, 0, 0, 1, 0, 1, 1, 1}),
              {.sequences = 2, .capacity = 2});
  EXPECT_EQ(values_of(rows.offset_E1), (std::vector<float>{0, 3, 6}));
  EXPECT_EQ(values_of(rows.slot_R), (std::vector<float>{0, 1, 4, 3, 5, 6, -1, -1}));
  EXPECT_EQ(values_of(rows.row_TK), (std::vector<float>{0, 1, -1, 3, 2, 4, 5, -1}));
}

TEST_P(ExpertRowsTest, TakesRowsToExpertsAndBackByHand) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor x = rig.tensor({2, 2}, {1, 2, 3, 4}, dtype);
    const Tensor y = rig.tensor({4, 2}, {9, 9, 9, 9, 9, 9, 9, 9}, dtype);
    gather_rows(rig.context, y, x, rig.ids({4}, {2, 0, 3, -1}), 2);
    EXPECT_EQ(values_of(y), (std::vector<float>{3, 4, 1, 2, 3, 4, 0, 0}));
    const Tensor sum = rig.tensor({2, 2}, {9, 9, 9, 9}, dtype);
    sum_rows(rig.context, sum, y, rig.ids({2, 2}, {1, -1, 0, 2}));
    EXPECT_EQ(values_of(sum), (std::vector<float>{1, 2, 6, 8}));
  }
}

TEST_P(ExpertRowsTest, WeighsRowsByHand) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor row = rig.ids({2, 2}, {1, -1, 0, 2});
    const Tensor weight = rig.tensor({2, 2}, {2, 3, 0.5f, 4});
    const Tensor x = rig.tensor({4, 2}, {2, 4, 3, 5, 1, 1, 7, 7}, dtype);
    const Tensor dy = rig.tensor({4, 2}, {1, 1, 10, 20, 2, 3, 8, 8}, dtype);
    const Tensor y = copy_of(rig, x);
    weigh_rows(rig.context, y, y, weight, row);
    EXPECT_EQ(values_of(y), (std::vector<float>{1, 2, 6, 10, 4, 4, 7, 7}));
    const Tensor dweight = rig.tensor({2, 2}, {9, 9, 9, 9});
    weigh_rows_backward(rig.context, dy, dweight, dy, x, weight, row);
    EXPECT_EQ(values_of(dweight), (std::vector<float>{130, 0, 6, 5}));
    EXPECT_EQ(values_of(dy), (std::vector<float>{0.5f, 0.5f, 20, 40, 8, 12, 8, 8}));
  }
}

// The way to the experts, weights and the way back, as one function of x and of the weights.
TEST_P(ExpertRowsTest, BackwardMatchesCentralDifferences) {
  constexpr int64_t T = 5, K = 2, R = 10, D = 3;
  const ExpertRows rows = rows_of(T, K, 3, R);
  expert_rows(rig.context, rows, rig.ids({T, K}, {0, 2, 2, 0, 2, 0, 0, 2, 2, 0}),
              {.sequences = 1, .capacity = 4});
  const Tensor x = rig.random({T, D}, 1);
  const Tensor weight = rig.random({T, K}, 2);
  const Tensor factor = rig.random({R, D}, 3);  // what the experts do: another to each row
  const Tensor dy = rig.random({T, D}, 4);
  const auto multiplied = [&](ConstTensor a, ConstTensor b) {
    std::vector<float> values = values_of(a);
    const std::vector<float> others = values_of(b);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= others[i];
    }
    return rig.tensor(a.shape, values);
  };
  const auto loss = [&] {
    const Tensor at_experts = rig.tensor({R, D});
    gather_rows(rig.context, at_experts, x, rows.slot_R, K);
    const Tensor out = multiplied(at_experts, factor);
    weigh_rows(rig.context, out, out, weight, rows.row_TK);
    const Tensor y = rig.tensor({T, D});
    sum_rows(rig.context, y, out, rows.row_TK);
    return testing::dot(y, dy);
  };
  const Tensor at_experts = rig.tensor({R, D}), gradient = rig.tensor({R, D});
  gather_rows(rig.context, at_experts, x, rows.slot_R, K);
  gather_rows(rig.context, gradient, dy, rows.slot_R, K);
  const Tensor dweight = rig.tensor({T, K}), dx = rig.tensor({T, D});
  weigh_rows_backward(rig.context, gradient, dweight, gradient, multiplied(at_experts, factor),
                      weight, rows.row_TK);
  sum_rows(rig.context, dx, multiplied(gradient, factor), rows.row_TK);
  testing::expect_central_differences(dx, x, loss);
  testing::expect_central_differences(dweight, weight, loss);
}

TEST(ExpertRows, BooksItsCost) {
  Rig rig(kMeta);
  const ExpertRows rows{.slot_R = rig.tensor({6}, DType::kI32),
                        .row_TK = rig.tensor({3, 2}, DType::kI32),
                        .offset_E1 = rig.tensor({5}, DType::kI32)};
  const Tensor x = rig.tensor({3, 4}), y = rig.tensor({6, 4}), weight = rig.tensor({3, 2});
  rig.trace.cut();
  expert_rows(rig.context, rows, rig.tensor({3, 2}, DType::kI32), {});
  gather_rows(rig.context, y, x, rows.slot_R, 2);
  sum_rows(rig.context, x, y, rows.row_TK);
  weigh_rows(rig.context, y, y, weight, rows.row_TK);
  weigh_rows_backward(rig.context, y, weight, y, y, weight, rows.row_TK);
  // 24 elements of 96 bytes at the experts, 48 at the tokens; 24 bytes of slots.
  const std::vector<BookedOp> expected = {{"expert_rows", 0, 48, 68},
                                          {"gather_rows", 0, 120, 96},
                                          {"sum_rows", 24, 120, 48},
                                          {"weigh_rows", 24, 144, 96},
                                          {"weigh_rows_backward", 72, 240, 120}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
