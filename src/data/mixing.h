// Mixture: which source the n-th sample of an epoch comes from.
//
// Weights are ratios of whole numbers, and the schedule is made of whole numbers only. After any
// number n of samples of an epoch a source of weight w has given floor(n w) or ceil(n w) of them
// (w: its share of the sum): nowhere more than one sample away from its share, and exactly its
// share wherever that is whole. (The quota method: Tijdeman, "The chairman assignment problem",
// 1980.)

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cadre::data {

// The smallest whole numbers in the ratio of `weights` (each above 0). Weights are read as decimals
// of up to nine digits after the point: {0.7, 0.2, 0.1} is 7 : 2 : 1. A ratio whose numbers would
// add up to more than 2^31 is rounded to parts of 2^30, each at least 1.
std::vector<int64_t> whole_ratio(std::span<const double> weights);

class Mixture {
 public:
  explicit Mixture(std::vector<int64_t> ratio);

  // The sum of the ratio: samples after which every source has given exactly its share.
  int64_t period() const { return period_; }

  struct Draw {
    int32_t source = 0;
    int64_t ordinal = 0;  // how many samples of the epoch before it came from the same source
  };

  // A pure function of `n`. Cheap if n is that of the last call plus a little; otherwise the period
  // (the sum of the ratio) is walked through again from its start.
  Draw at(int64_t n);

 private:
  void seek(int64_t place);
  size_t next_source() const;

  std::vector<int64_t> ratio_;
  int64_t period_ = 0;
  int64_t place_ = 0;           // in the period: the number of samples in given_
  std::vector<int64_t> given_;  // by source, of the first place_ samples of the period
};

}  // namespace cadre::data
