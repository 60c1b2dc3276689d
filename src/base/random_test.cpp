#include "base/random.h"

#include <gtest/gtest.h>

namespace cadre {
namespace {

// Published answers of Philox4x32-10: the initial weights of every run depend on these bits.
TEST(Random, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, GivesTheSameNumberAloneAndInItsBlock) {
  const RandomKey key{.seed = 3, .stream = stream_of("model.norm.weight")};
  for (int64_t index = 0; index < 12; ++index) {
    const auto position = static_cast<uint64_t>(index);
    EXPECT_EQ(normal_at(key, index), normals_of_block(key, position / 4)[position % 4]);
    EXPECT_EQ(random_word_at(key, index), random_words(key, position / 4)[position % 4]);
  }
}

// 40,000 numbers: the mean is within 5 standard errors of 0, the variance of 1, neighbours are
// uncorrelated, and another seed or stream gives other numbers.
TEST(Random, NormalNumbersHaveTheMomentsOfANormalDistribution) {
  constexpr int kCount = 40000;
  const RandomKey key{.seed = 7, .stream = 1};
  double sum = 0.0, squares = 0.0, neighbours = 0.0, others = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double value = normal_at(key, i);
    sum += value;
    squares += value * value;
    neighbours += value * normal_at(key, i + 1);
    others += value * normal_at({.seed = 8, .stream = 1}, i);
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.025);
  EXPECT_NEAR(squares / kCount, 1.0, 0.035);
  EXPECT_NEAR(neighbours / kCount, 0.0, 0.025);
  EXPECT_NEAR(others / kCount, 0.0, 0.025);
}

}  // namespace
}  // namespace cadre
