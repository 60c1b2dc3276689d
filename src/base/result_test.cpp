#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace cadre {
namespace {

Result<std::vector<int>> three() {
  return std::vector<int>{5, 6, 7};
}

// A reference would be one into the result, which ends before the loop begins.
static_assert(std::is_same_v<decltype(*three()), std::vector<int>>);
static_assert(std::is_same_v<decltype(three().value()), std::vector<int>>);

TEST(ResultTest, GivesAValueThatOutlivesTheResult) {
  int sum = 0;
  for (const int number : *three()) {
    sum += number;
  }
  EXPECT_EQ(sum, 18);
  const std::vector<int>& bound = *three();
  EXPECT_EQ(bound[2], 7);
}

TEST(ResultTest, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(4);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 4);
}

}  // namespace
}  // namespace cadre
