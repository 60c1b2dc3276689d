#include "nn/parameter.h"

#include <string>
#include <vector>

#include "nn/store_test.h"

namespace cadre::nn {
namespace {

using testing::kMeta;
using testing::values_of;

TEST(ParameterStore, InitialisesEveryElementByItsPlaceInTheWholeTensor) {
  StoreRig whole;
  whole.store.declare({{.name = "w", .whole = {7, 10}, .deviation = 0.5f}});
  whole.allocate(11);
  const std::vector<float> expected = values_of(whole.parameter("w").master);
  for (int64_t i = 0; i < 70; ++i) {
    EXPECT_EQ(expected[static_cast<size_t>(i)],
              0.5f * normal_at({.seed = 11, .stream = stream_of("w")}, i));
  }
  // Rows and columns of it, on ranks that hold nothing else, beside other parameters in a stack.
  const Box part{.first = {2, 3}, .size = {4, 5}};
  StoreRig shard;
  shard.store.declare({{.name = "before", .whole = {3, 5}},
                       {.name = "w", .whole = {7, 10}, .shard = part, .deviation = 0.5f}});
  shard.allocate(11);
  std::vector<float> cut;
  for (int64_t row = 2; row < 6; ++row) {
    for (int64_t column = 3; column < 8; ++column) {
      cut.push_back(expected[static_cast<size_t>(row * 10 + column)]);
    }
  }
  EXPECT_EQ(values_of(shard.parameter("w").master), cut);
  EXPECT_EQ(shard.store.elements(), 15 + 70);
}

TEST(ParameterStore, InitialValuesDependOnSeedAndName) {
  const auto values = [](const char* name, uint64_t seed) {
    StoreRig x;
    x.store.declare({{.name = name, .whole = {3, 3}}});
    x.allocate(seed);
    return values_of(x.parameter(name).master);
  };
  EXPECT_EQ(values("a", 1), values("a", 1));
  EXPECT_NE(values("a", 1), values("b", 1));
  EXPECT_NE(values("a", 1), values("a", 2));
}

TEST(ParameterStore, FillsOnesAndZeros) {
  StoreRig x;
  x.store.declare(
      {{.name = "ones", .whole = {3}, .initial = Initial::kOnes, .role = ParameterRole::kVector}});
  x.store.declare({{.name = "zeros",
                    .whole = {2},
                    .initial = Initial::kZeros,
                    .role = ParameterRole::kVector}});
  x.allocate();
  EXPECT_EQ(values_of(x.parameter("ones").master), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(values_of(x.parameter("zeros").master), (std::vector<float>{0, 0}));
}

TEST(ParameterStore, StacksLieUnderOneAnother) {
  StoreRig x;
  ParameterStack& stack = x.unit.declare({{.name = "q", .whole = {4, 3}},
                                          {.name = "k", .whole = {2, 3}},
                                          {.name = "v", .whole = {1, 3}}});
  x.allocate();
  EXPECT_EQ(stack.whole_value.shape, (Shape{7, 3}));
  EXPECT_EQ(values_of(stack.whole_value.rows(4, 2)), values_of(x.parameter("k").master));
  EXPECT_EQ(values_of(stack.whole_value.rows(6, 1)), values_of(x.parameter("v").master));
  testing::store(stack.whole_gradient, 6 * 3 + 1, 5.0f);
  EXPECT_EQ(values_of(x.parameter("v").gradient), (std::vector<float>{0, 5, 0}));
  EXPECT_EQ(values_of(x.parameter("q").gradient), std::vector<float>(12, 0.0f));
}

TEST(ParameterStore, KeepsMastersOfMatricesAndComputesWithVectorsAsTheyAre) {
  for (const DType compute : {DType::kBf16, DType::kF16}) {
    StoreRig x(testing::kCpu, {.compute = compute});
    x.store.declare({{.name = "w", .whole = {5, 6}}});
    x.store.declare({{.name = "b", .whole = {5}, .role = ParameterRole::kVector}});
    x.allocate();
    const Parameter& w = x.parameter("w");
    const Parameter& b = x.parameter("b");
    EXPECT_EQ(w.copy.dtype, compute);
    EXPECT_TRUE(b.copy.empty());
    std::vector<float> rounded = values_of(w.master);
    EXPECT_NE(values_of(w.copy), rounded);
    for (float& value : rounded) {
      value = compute == DType::kBf16 ? to_float(from_float<Bf16>(value))
                                      : to_float(from_float<F16>(value));
    }
    EXPECT_EQ(values_of(w.copy), rounded);
    testing::store(w.master, 7, 3.0f);
    x.store.refresh_copies(x.rig.context);
    EXPECT_EQ(values_of(w.copy)[7], 3.0f);

    x.unit.declare({{.name = "w", .whole = {5, 6}}});  // the unit that holds it
    x.unit.declare({{.name = "b", .whole = {5}, .role = ParameterRole::kVector}});
    const ParameterUnit::Lease lease(x.unit);
    EXPECT_EQ(w.value().dtype, compute);
    EXPECT_EQ(b.value().dtype, DType::kF32);
  }
}

TEST(ParameterStore, TakesMemoryByWhatItIsFor) {
  for (const Device& device : {testing::kCpu, kMeta}) {
    StoreRig x(device, {.compute = DType::kBf16});
    x.store.declare({{.name = "w", .whole = {64, 32}}});
    x.store.declare({{.name = "b", .whole = {64}, .role = ParameterRole::kVector}});
    x.allocate();
    EXPECT_EQ(x.rig.parameters.used_bytes(), 64 * 32 * 2 + 64 * 4);  // copy; the vector itself
    EXPECT_EQ(x.rig.gradients.used_bytes(), 64 * 32 * 4 + 64 * 4);
    EXPECT_EQ(x.optimizer.used_bytes(), 64 * 32 * 4);  // the master
  }
}

TEST(ParameterStore, AFrozenParameterHasNeitherGradientNorMaster) {
  StoreRig x(testing::kCpu, {.compute = DType::kBf16, .is_frozen = only("w")});
  x.store.declare({{.name = "w", .whole = {64, 32}}});
  x.store.declare({{.name = "u", .whole = {32, 32}}});
  x.allocate(3);
  const Parameter& w = x.parameter("w");
  EXPECT_TRUE(w.frozen && w.master.empty() && w.gradient.empty());
  EXPECT_FALSE(x.parameter("u").frozen || x.parameter("u").gradient.empty());
  EXPECT_EQ(x.rig.gradients.used_bytes(), 32 * 32 * 4);
  EXPECT_EQ(x.optimizer.used_bytes(), 32 * 32 * 4);
  // Its initial values are those that it has anywhere, rounded.
  const RandomKey key{.seed = 3, .stream = stream_of("w")};
  EXPECT_EQ(values_of(w.stored())[5], to_float(from_float<Bf16>(0.02f * normal_at(key, 5))));
}

TEST(ParameterStore, AStackMayBeFrozenInPart) {
  StoreRig x(testing::kCpu, {.is_frozen = only("k")});
  ParameterStack& stack =
      x.store.declare({{.name = "q", .whole = {4, 3}}, {.name = "k", .whole = {2, 3}}});
  x.allocate();
  EXPECT_FALSE(stack.frozen());
  EXPECT_EQ(stack.whole_gradient.shape, (Shape{6, 3}));
  EXPECT_TRUE(x.parameter("k").gradient.empty());
  EXPECT_EQ(x.parameter("q").gradient.shape, (Shape{4, 3}));
}

TEST(ParameterStore, ATiedParameterIsOne) {
  StoreRig x;
  const ParameterSpec table{
      .name = "embed.weight", .whole = {9, 4}, .role = ParameterRole::kEmbedding};
  ParameterUnit head(x.store);
  ParameterStack& first = x.unit.declare({table});
  ParameterStack& second = head.declare({table});
  EXPECT_EQ(&first, &second);
  EXPECT_EQ(x.store.parameters().size(), 1u);
  EXPECT_EQ(x.store.elements(), 36);
  x.allocate();
  EXPECT_EQ(x.rig.parameters.used_bytes(), x.rig.gradients.used_bytes());
  // Both units count: it is free when the last of them has let go.
  x.unit.acquire();
  head.acquire();
  x.unit.release();
  EXPECT_EQ(second.value().shape, (Shape{9, 4}));
  head.release();
  EXPECT_DEATH(static_cast<void>(second.value()),
               "embed.weight is used outside acquire\\(\\) and release\\(\\)");
}

TEST(ParameterStore, RefusesDeclarationsThatContradict) {
  StoreRig x;
  x.store.declare({{.name = "w", .whole = {9, 4}}});
  x.store.declare({{.name = "q", .whole = {2, 4}}, {.name = "k", .whole = {2, 4}}});
  EXPECT_DEATH(x.store.declare({{.name = "w", .whole = {4, 9}}}),
               "declared twice, and differently");
  EXPECT_DEATH(x.store.declare({{.name = "new", .whole = {2, 4}}, {.name = "w", .whole = {9, 4}}}),
               "w is declared twice");
  EXPECT_DEATH(x.store.declare({{.name = "q", .whole = {2, 4}}}), "q is stacked with others");
  EXPECT_DEATH(x.store.declare({}), "a stack of nothing");
  EXPECT_DEATH(x.unit.declare({{.name = "fresh", .whole = {2}}});
               x.unit.release(), "fresh is released but not acquired");
}

}  // namespace
}  // namespace cadre::nn
