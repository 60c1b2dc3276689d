#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace cadre::data {
namespace {

std::vector<int64_t> whole(int64_t size, const RandomKey& key) {
  const Permutation permutation(size, key);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) {
    order.push_back(permutation.at(i));
  }
  return order;
}

TEST(Permutation, VisitsEveryNumberOnce) {
  for (const int64_t size : {1, 2, 3, 5, 8, 9, 64, 65, 127, 1000, 4097, 70001}) {
    std::vector<bool> seen(static_cast<size_t>(size), false);
    for (const int64_t number : whole(size, {.seed = 7, .stream = 3})) {
      ASSERT_GE(number, 0);
      ASSERT_LT(number, size);
      ASSERT_FALSE(seen[static_cast<size_t>(number)]) << size << ": " << number;
      seen[static_cast<size_t>(number)] = true;
    }
  }
}

TEST(Permutation, StaysInsideHugeRanges) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, {.seed = 1, .stream = 2});
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(permutation.at(size - 1 - i), size);
  }
}

TEST(Permutation, DependsOnBothHalvesOfTheKey) {
  const auto order = whole(100, {.seed = 1, .stream = 1});
  EXPECT_EQ(order, whole(100, {.seed = 1, .stream = 1}));
  EXPECT_NE(order, whole(100, {.seed = 2, .stream = 1}));
  EXPECT_NE(order, whole(100, {.seed = 1, .stream = 2}));
  EXPECT_NE(order, whole(100, {.seed = 1, .stream = 1 + (uint64_t{1} << 40)}));
}

// Chi-square over all orders of three, four and five elements: no order is favoured.
TEST(Permutation, ReachesEveryOrderOfAFewElementsEquallyOften) {
  for (const int64_t size : {3, 4, 5}) {
    constexpr int kTrials = 24000;
    std::map<std::vector<int64_t>, int> counts;
    for (uint64_t stream = 0; stream < kTrials; ++stream) {
      ++counts[whole(size, {.seed = 99, .stream = stream})];
    }
    const double orders = std::tgamma(static_cast<double>(size) + 1.0);
    ASSERT_EQ(static_cast<double>(counts.size()), orders);
    const double expected = kTrials / orders;
    double chi_square = 0.0;
    for (const auto& [order, count] : counts) {
      chi_square += (count - expected) * (count - expected) / expected;
    }
    // Mean `orders - 1`, standard deviation sqrt(2 (orders - 1)): five of them above.
    EXPECT_LT(chi_square, orders - 1 + 5 * std::sqrt(2 * (orders - 1))) << size;
  }
}

// What a shuffle is for: neighbours in the order are not neighbours in the corpus.
TEST(Permutation, DoesNotKeepNeighboursTogether) {
  const auto order = whole(10000, {.seed = 5, .stream = 0});
  int near = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    near += std::abs(order[i] - order[i - 1]) < 100 ? 1 : 0;
  }
  EXPECT_NEAR(near, 200, 75);  // 2 * 100 / 10000 of the pairs
}

}  // namespace
}  // namespace cadre::data
