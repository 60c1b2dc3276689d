#include "kernels/embedding.h"

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::kMeta;
using testing::Rig;
using testing::values_of;

class EmbeddingTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, EmbeddingTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(EmbeddingTest, LooksUpRowsByHand) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor table = rig.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, dtype);
    const Tensor x = rig.tensor({4, 2}, {7, 7, 7, 7, 7, 7, 7, 7}, dtype);
    const Tensor id = rig.ids({4}, {2, 0, 2, 1});
    embedding_forward(rig.context, x, table, id, 0);
    EXPECT_EQ(values_of(x), (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
    embedding_add_forward(rig.context, x, table, rig.ids({4}, {0, 0, 0, 1}), 0);
    EXPECT_EQ(values_of(x), (std::vector<float>{6, 8, 2, 4, 6, 8, 6, 8}));
  }
}

TEST_P(EmbeddingTest, PartsOfTheTableAddUpToTheWhole) {
  const Tensor table = rig.random({5, 3}, 1);
  const Tensor id = rig.ids({6}, {4, 0, 1, 1, 3, 2});
  const Tensor whole = rig.tensor({6, 3});
  embedding_forward(rig.context, whole, table, id, 0);
  const Tensor first = rig.random({6, 3}, 2);
  const Tensor second = rig.random({6, 3}, 3);
  embedding_forward(rig.context, first, table.rows(0, 2), id, 0);
  embedding_forward(rig.context, second, table.rows(2, 3), id, 2);
  EXPECT_EQ(rounded_sums(first, second), values_of(whole));
  // Adding looks at those of its part only.
  embedding_add_forward(rig.context, first, table.rows(2, 3), id, 2);
  EXPECT_EQ(values_of(first), values_of(whole));
}

TEST_P(EmbeddingTest, BackwardAddsEveryTokenOfItsPart) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor dx = rig.tensor({4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000}, dtype);
    const Tensor dtable = rig.tensor({2, 2}, {0.5f, 0, 0, 0});
    embedding_backward(rig.context, dtable, dx, rig.ids({4}, {4, 3, 4, 5}), 4);
    EXPECT_EQ(values_of(dtable), (std::vector<float>{101.5f, 202, 1000, 2000}));
  }
}

// f32 sums depend on their order; tokens are added in theirs, for any number of threads.
TEST_P(EmbeddingTest, BackwardAddsInTheOrderOfTokens) {
  constexpr int64_t T = 700;
  constexpr int64_t D = 300;
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < T; ++t) {
    ids.push_back(t % 3);
  }
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor dx = other.random({T, D}, 1);
    const Tensor dtable = other.random({3, D}, 2);
    std::vector<float> expected = values_of(dtable);
    const std::vector<float> gradients = values_of(dx);
    for (size_t i = 0; i < gradients.size(); ++i) {
      expected[static_cast<size_t>(ids[i / D] * D) + i % D] += gradients[i];
    }
    embedding_backward(other.context, dtable, dx, other.ids({T}, ids), 0);
    EXPECT_EQ(values_of(dtable), expected);
  }
}

TEST(Embedding, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor table = rig.tensor({9, 4});
  const Tensor x = rig.tensor({3, 4});
  const Tensor id = rig.tensor({3}, DType::kI32);
  rig.trace.cut();
  embedding_forward(rig.context, x, table, id, 0);
  embedding_add_forward(rig.context, x, table, id, 0);
  embedding_backward(rig.context, table, x, id, 0);
  // 12 elements of 48 bytes; ids take 12.
  const std::vector<BookedOp> expected = {{"embedding_forward", 0, 60, 48},
                                          {"embedding_add_forward", 12, 108, 48},
                                          {"embedding_backward", 12, 108, 48}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
