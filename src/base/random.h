// Counter-based random numbers: a pure function of (seed, stream, index), with no state to carry.
//
// A rank that holds elements [a, b) of a tensor asks for exactly those indices, so every layout
// sees the same numbers. The generator is Philox4x32 with ten rounds (Salmon et al., SC 2011).

#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace cadre {

using PhiloxWords = std::array<uint32_t, 4>;

constexpr PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key) {
  constexpr auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  constexpr auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * counter[0];
    const uint64_t right = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(right) ^ counter[1] ^ key[0], low(right), high(left) ^ counter[3] ^ key[1],
               low(left)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;  // what the numbers are for: stream_of(parameter name), a sample index
};

// FNV-1a, fixed for ever: a changed hash would change every initialisation.
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return hash;
}

// The four words that belong to elements [4 block, 4 block + 4) of `key`.
constexpr PhiloxWords random_words(const RandomKey& key, uint64_t block) {
  constexpr auto half = [](uint64_t word, int shift) {
    return static_cast<uint32_t>(word >> shift);
  };
  return philox({half(block, 0), half(block, 32), half(key.stream, 0), half(key.stream, 32)},
                {half(key.seed, 0), half(key.seed, 32)});
}

// Number `index` of the uniform 32-bit words of `key`.
constexpr uint32_t random_word_at(const RandomKey& key, int64_t index) {
  const auto position = static_cast<uint64_t>(index);
  return random_words(key, position / 4)[position % 4];
}

// Number `index` of the uniform numbers of `key`, in [0, 1).
constexpr double uniform_at(const RandomKey& key, int64_t index) {
  return random_word_at(key, index) / 4294967296.0;
}

// Standard normal numbers [4 block, 4 block + 4) of `key` (Box-Muller: two words make two numbers).
inline std::array<float, 4> normals_of_block(const RandomKey& key, uint64_t block) {
  const PhiloxWords words = random_words(key, block);
  std::array<float, 4> normals{};
  for (size_t pair = 0; pair < 2; ++pair) {
    const double uniform =
        (words[2 * pair] + 1.0) / 4294967296.0;  // never 0: its logarithm is taken
    const double radius = std::sqrt(-2.0 * std::log(uniform));
    const double angle = 2.0 * std::numbers::pi * words[2 * pair + 1] / 4294967296.0;
    normals[2 * pair] = static_cast<float>(radius * std::cos(angle));
    normals[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return normals;
}

// Number `index` of the standard normal numbers of `key`.
inline float normal_at(const RandomKey& key, int64_t index) {
  const auto position = static_cast<uint64_t>(index);
  return normals_of_block(key, position / 4)[position % 4];
}

}  // namespace cadre
