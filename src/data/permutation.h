// Permutation: a shuffled order of any length that needs no memory.
//
// A Feistel network over the smallest power of two that holds `size` numbers, keyed by Philox; what
// falls outside is sent through again until it falls inside (cycle walking; fewer than two turns on
// average). (Black and Rogaway, CT-RSA 2002)

#pragma once

#include <cstdint>

#include "base/random.h"

namespace cadre::data {

class Permutation {
 public:
  Permutation(int64_t size, const RandomKey& key);

  // A bijection of [0, size), fixed for ever as a function of size and key.
  int64_t at(int64_t index) const;

 private:
  uint64_t through(uint64_t number) const;

  uint64_t size_;
  RandomKey key_;
  int low_bits_;   // of the half that the rounds begin with
  int high_bits_;  // the same or one less
};

}  // namespace cadre::data
