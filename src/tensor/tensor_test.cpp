#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cadre {
namespace {

class TensorTest : public ::testing::Test {
 protected:
  HeapMemory heap;
  Trace trace;
  Arena arena{heap, trace, {.category = MemoryCategory::kActivations, .capacity_bytes = 4096}};
};

TEST_F(TensorTest, SlicesTransposesAndSplits) {
  const OwnedTensor owned = allocate(arena, DType::kF32, {2, 6});
  std::iota(owned.view().flat<float>().begin(), owned.view().flat<float>().end(), 0.0f);
  const Tensor t = owned;
  EXPECT_EQ(t.columns(2, 3).row<float>(1)[0], 8.0f);
  EXPECT_EQ(t.rows(1, 1).row<float>(0)[5], 11.0f);
  EXPECT_EQ(t.transposed().shape, (Shape{6, 2}));
  const Tensor heads = t.split(1, 3);
  EXPECT_EQ(heads.shape, (Shape{2, 3, 2}));
  EXPECT_EQ(heads.strides, (Shape{6, 2, 1}));
  EXPECT_EQ(t.reshaped({3, 4}).row<float>(2)[3], 11.0f);
}

TEST_F(TensorTest, GivesItsMemoryBackOnce) {
  OwnedTensor a = allocate(arena, DType::kBf16, {40});
  EXPECT_EQ(arena.used_bytes(), 128);
  OwnedTensor b = std::move(a);
  EXPECT_EQ(arena.used_bytes(), 128);
  b.reset();
  EXPECT_EQ(arena.used_bytes(), 0);
  EXPECT_TRUE(b.empty());
}

TEST_F(TensorTest, RefusesViewsOutsideItself) {
  const OwnedTensor t = allocate(arena, DType::kF32, {2, 3});
  EXPECT_DEATH(t.view().columns(2, 2), "of \\[2, 3\\]");
  EXPECT_DEATH(t.view().split(1, 2), "3 over 2");
  EXPECT_DEATH(static_cast<void>(t.view().flat<Bf16>()), "f32 of shape");
}

}  // namespace
}  // namespace cadre
