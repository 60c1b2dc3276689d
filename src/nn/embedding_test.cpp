#include "nn/embedding.h"

#include <vector>

#include "nn/store_test.h"

namespace cadre::nn {
namespace {

using testing::values_of;

const ParameterSpec kTable{
    .name = "embed.weight", .whole = {5, 3}, .deviation = 1.0f, .role = ParameterRole::kEmbedding};

std::vector<float> row(const std::vector<float>& table, size_t id) {
  return {table.begin() + static_cast<std::ptrdiff_t>(3 * id),
          table.begin() + static_cast<std::ptrdiff_t>(3 * id + 3)};
}

TEST(Embedding, LooksUpAndAdds) {
  StoreRig x;
  const Embedding embedding(x.unit, kTable);
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const std::vector<float> table = values_of(x.parameter("embed.weight").master);
  const Tensor ids = x.rig.ids({4}, {4, 0, 4, 2});
  const Tensor y = x.rig.tensor({4, 3});
  Embedding::Stash stash;
  embedding.forward(x.rig.context, y, ids, stash);
  for (const auto& [place, id] : std::vector<std::pair<int64_t, size_t>>{{0, 4}, {1, 0}, {3, 2}}) {
    EXPECT_EQ(values_of(y.rows(place, 1)), row(table, id));
  }
  embedding.add_infer(x.rig.context, y, ids);
  std::vector<float> twice = row(table, 2);
  for (float& value : twice) {
    value *= 2.0f;
  }
  EXPECT_EQ(values_of(y.rows(3, 1)), twice);
}

TEST(Embedding, GradientsGoToTheRowsThatWereRead) {
  StoreRig x;
  const Embedding embedding(x.unit, kTable);
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor ids = x.rig.ids({3}, {4, 1, 4});
  const Tensor dx = x.rig.tensor({3, 3}, {1, 2, 3, 10, 20, 30, 100, 200, 300});
  for (int pass = 0; pass < 2; ++pass) {  // adds
    Embedding::Stash stash;
    embedding.forward(x.rig.context, x.rig.tensor({3, 3}), ids, stash);
    embedding.backward_input(dx, stash);
    embedding.backward_weight(x.rig.context, stash);
    EXPECT_TRUE(stash.id_T.empty() && stash.dx_TD.empty());
  }
  EXPECT_EQ(values_of(x.parameter("embed.weight").gradient),
            (std::vector<float>{0, 0, 0, 20, 40, 60, 0, 0, 0, 0, 0, 0, 202, 404, 606}));
}

// Ids of other ranks give zeros, and no gradient here.
TEST(Embedding, APartOfATableKnowsItsOwnRowsAlone) {
  StoreRig whole;
  const Embedding all(whole.unit, kTable);
  whole.allocate();
  StoreRig x;
  ParameterSpec spec = kTable;
  spec.shard = Box{.first = {2, 0}, .size = {2, 3}};
  const Embedding part(x.unit, spec);
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const std::vector<float> table = values_of(whole.parameter("embed.weight").master);
  const Tensor ids = x.rig.ids({4}, {1, 3, 4, 2});
  const Tensor y = x.rig.random({4, 3}, 5);  // overwritten
  Embedding::Stash stash;
  part.forward(x.rig.context, y, ids, stash);
  const std::vector<float> zeros(3, 0.0f);
  EXPECT_EQ(values_of(y.rows(0, 1)), zeros);
  EXPECT_EQ(values_of(y.rows(1, 1)), row(table, 3));
  EXPECT_EQ(values_of(y.rows(2, 1)), zeros);
  EXPECT_EQ(values_of(y.rows(3, 1)), row(table, 2));
  part.backward_input(x.rig.tensor({4, 3}, {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8}), stash);
  part.backward_weight(x.rig.context, stash);
  EXPECT_EQ(values_of(x.parameter("embed.weight").gradient),
            (std::vector<float>{8, 8, 8, 2, 2, 2}));
}

TEST(Embedding, AFrozenTableCostsNothingInTheBackwardPass) {
  StoreRig x(testing::kCpu, {.is_frozen = only("embed.weight")});
  const Embedding embedding(x.unit, kTable);
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  Embedding::Stash stash;
  EXPECT_DEATH(embedding.backward_input(x.rig.tensor({2, 3}), stash), "backward without");
  embedding.forward(x.rig.context, x.rig.tensor({2, 3}), x.rig.ids({2}, {1, 2}), stash);
  embedding.backward_input(x.rig.tensor({2, 3}), stash);
  x.rig.trace.cut();
  embedding.backward_weight(x.rig.context, stash);
  EXPECT_TRUE(x.rig.trace.cut().ops.empty());
}

}  // namespace
}  // namespace cadre::nn
