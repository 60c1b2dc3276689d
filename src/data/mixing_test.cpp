#include "data/mixing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace cadre::data {
namespace {

std::string letters(Mixture& mixture, int64_t samples) {
  std::string text;
  for (int64_t n = 0; n < samples; ++n) {
    text += static_cast<char>('a' + mixture.at(n).source);
  }
  return text;
}

TEST(Mixing, ReadsWeightsAsDecimals) {
  EXPECT_EQ(whole_ratio(std::vector{0.7, 0.2, 0.1}), (std::vector<int64_t>{7, 2, 1}));
  EXPECT_EQ(whole_ratio(std::vector{1.0, 1.0}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(whole_ratio(std::vector{30.0, 12.0}), (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(whole_ratio(std::vector{0.333, 0.667}), (std::vector<int64_t>{333, 667}));
  EXPECT_EQ(whole_ratio(std::vector{1e-6, 1.0}), (std::vector<int64_t>{1, 1000000}));
}

TEST(Mixing, RoundsRatiosThatNoShortDecimalsWrite) {
  const auto ratio = whole_ratio(std::vector{1.0 / 3.0, 2.0 / 3.0, 1e-12});
  EXPECT_EQ(ratio, (std::vector<int64_t>{357913941, 715827883, 1}));
}

// By hand for a : b = 3 : 2, the deadline of a source's next sample being ceil((given + 1) 5 /
// part): n = 0: a 2, b 3: a.  n = 1: a 4, b 3: b.  n = 2: a 4, b 5: a.  n = 3: a 5, b 5: the first
// of them, a. n = 4: a has given all of its 3, which is ceil(5 * 3 / 5): b. Then it starts again.
TEST(Mixing, FollowsTheScheduleWorkedOutByHand) {
  Mixture mixture({3, 2});
  EXPECT_EQ(letters(mixture, 10), "abaababaab");
}

// The property itself, by brute force over awkward ratios: many small sources beside a large one
// is where rounding each source by itself fails.
TEST(Mixing, IsNeverASampleAwayFromAnyShare) {
  const std::vector<std::vector<int64_t>> ratios = {{1},
                                                    {1, 1},
                                                    {7, 2, 1},
                                                    {90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                                    {5, 5, 4, 3, 2, 1, 1},
                                                    {13, 17, 19},
                                                    {1000, 1, 999}};
  for (const auto& ratio : ratios) {
    const int64_t sum = std::accumulate(ratio.begin(), ratio.end(), int64_t{0});
    Mixture mixture(ratio);
    std::vector<int64_t> given(ratio.size(), 0);
    for (int64_t n = 0; n < 3 * sum; ++n) {
      const Mixture::Draw draw = mixture.at(n);
      EXPECT_EQ(draw.ordinal, given[static_cast<size_t>(draw.source)]++);
      for (size_t source = 0; source < ratio.size(); ++source) {
        const int64_t share = (n + 1) * ratio[source];
        ASSERT_GE(given[source], share / sum) << n;
        ASSERT_LE(given[source], (share + sum - 1) / sum) << n;
      }
    }
  }
}

TEST(Mixing, IsTheSameFromAnyPlace) {
  Mixture jumping({5, 3, 2, 7});
  for (int64_t n = 400; n >= 0; n -= 7) {
    const Mixture::Draw jumped = jumping.at(n);
    const Mixture::Draw fresh = Mixture({5, 3, 2, 7}).at(n);
    EXPECT_EQ(jumped.source, fresh.source);
    EXPECT_EQ(jumped.ordinal, fresh.ordinal);
  }
}

TEST(Mixing, DoesNotDriftOverTrillionsOfSamples) {
  constexpr int64_t kPeriods = 1'000'000'000'000;
  const Mixture::Draw draw = Mixture({333, 667}).at(1000 * kPeriods);
  EXPECT_EQ(draw.ordinal, (draw.source == 0 ? 333 : 667) * kPeriods);
}

}  // namespace
}  // namespace cadre::data
