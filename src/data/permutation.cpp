#include "data/permutation.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace cadre::data {
namespace {

// Four make a strong permutation of large halves (Luby and Rackoff); halves of a bit or two need
// more.
constexpr uint32_t kRounds = 48;

constexpr uint64_t mask_of(int bits) {
  return (uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(int64_t size, const RandomKey& key)
    : size_(static_cast<uint64_t>(size)), key_(key) {
  CADRE_CHECK(size >= 1, size, " elements");
  const int bits = static_cast<int>(std::bit_width(size_ - 1));
  high_bits_ = bits / 2;
  low_bits_ = bits - high_bits_;
}

uint64_t Permutation::through(uint64_t number) const {
  int low_bits = low_bits_;
  int high_bits = high_bits_;
  uint64_t low = number & mask_of(low_bits);
  uint64_t high = number >> low_bits;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxWords counter = {static_cast<uint32_t>(low), round,
                                 static_cast<uint32_t>(key_.stream),
                                 static_cast<uint32_t>(key_.stream >> 32)};
    const PhiloxWords words =
        philox(counter, {static_cast<uint32_t>(key_.seed), static_cast<uint32_t>(key_.seed >> 32)});
    // The halves change places, and with them their widths.
    const uint64_t mixed = (high ^ words[0]) & mask_of(high_bits);
    high = low;
    low = mixed;
    std::swap(low_bits, high_bits);
  }
  return high << low_bits | low;
}

int64_t Permutation::at(int64_t index) const {
  auto number = static_cast<uint64_t>(index);
  CADRE_CHECK(number < size_, index, " of ", size_);
  do {
    number = through(number);
  } while (number >= size_);
  return static_cast<int64_t>(number);
}

}  // namespace cadre::data
