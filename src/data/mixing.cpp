#include "data/mixing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace cadre::data {
namespace {

constexpr int64_t kPeriodMax = int64_t{1} << 31;  // products of two numbers below it fit 64 bits
constexpr int kDigitsMax = 9;

bool is_whole(double value) {
  return std::abs(value - std::round(value)) <= 1e-9 * std::max(1.0, std::abs(value));
}

}  // namespace

std::vector<int64_t> whole_ratio(std::span<const double> weights) {
  CADRE_CHECK(!weights.empty(), "a mixture needs a source");
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double scale = 1.0;
  for (int digit = 0; digit < kDigitsMax; ++digit) {
    if (std::ranges::all_of(weights, [&](double weight) { return is_whole(weight * scale); })) {
      break;
    }
    scale *= 10.0;
  }
  std::vector<int64_t> ratio;
  const bool exact =
      sum * scale < 9e15 &&  // what a double holds exactly
      std::ranges::all_of(weights, [&](double weight) { return is_whole(weight * scale); });
  int64_t divisor = 0;
  for (const double weight : weights) {
    CADRE_CHECK(weight > 0.0 && std::isfinite(weight), "weight ", weight);
    ratio.push_back(exact ? std::llround(weight * scale) : 0);
    divisor = std::gcd(divisor, ratio.back());
  }
  int64_t period = 0;
  for (int64_t& part : ratio) {
    part /= std::max<int64_t>(divisor, 1);
    period += part;
  }
  if (!exact || period > kPeriodMax || std::ranges::min(ratio) == 0) {
    std::ranges::transform(weights, ratio.begin(), [sum](double weight) {
      return std::max<int64_t>(1, std::llround(weight / sum * 0x1p30));
    });
  }
  return ratio;
}

Mixture::Mixture(std::vector<int64_t> ratio) : ratio_(std::move(ratio)), given_(ratio_.size(), 0) {
  for (const int64_t part : ratio_) {
    CADRE_CHECK(part > 0, part);
    period_ += part;
  }
  CADRE_CHECK(period_ > 0 && period_ <= kPeriodMax, period_);
}

// Among the sources that one sample more would not lift above their share's ceiling, the one whose
// share's floor would be missed first. That there always is one is Tijdeman's theorem.
size_t Mixture::next_source() const {
  size_t best = ratio_.size();
  int64_t best_deadline = 0;
  for (size_t source = 0; source < ratio_.size(); ++source) {
    if (given_[source] * period_ >= (place_ + 1) * ratio_[source]) {
      continue;
    }
    // The first n with n w >= given + 1.
    const int64_t deadline = ((given_[source] + 1) * period_ + ratio_[source] - 1) / ratio_[source];
    if (best == ratio_.size() || deadline < best_deadline) {
      best = source;
      best_deadline = deadline;
    }
  }
  CADRE_CHECK(best < ratio_.size(), "no source may give sample ", place_);
  return best;
}

void Mixture::seek(int64_t place) {
  if (place < place_) {
    place_ = 0;
    std::ranges::fill(given_, 0);
  }
  while (place_ < place) {
    ++given_[next_source()];
    ++place_;
  }
}

Mixture::Draw Mixture::at(int64_t n) {
  CADRE_CHECK(n >= 0, n);
  seek(n % period_);
  const size_t source = next_source();
  return {.source = static_cast<int32_t>(source),
          .ordinal = n / period_ * ratio_[source] + given_[source]};
}

}  // namespace cadre::data
