#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

namespace cadre {
namespace {

using State = std::array<uint32_t, 8>;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kBlockBytes = 64;

uint32_t big_endian_at(std::string_view bytes, size_t offset) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) {
    word = word << 8 | static_cast<uint8_t>(bytes[offset + i]);
  }
  return word;
}

// FIPS 180-4, 6.2.2.
void add_block(State& state, std::string_view block) {
  std::array<uint32_t, 64> words{};
  for (size_t t = 0; t < 64; ++t) {
    if (t < 16) {
      words[t] = big_endian_at(block, 4 * t);
      continue;
    }
    const uint32_t early = words[t - 15];
    const uint32_t late = words[t - 2];
    words[t] = (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10) + words[t - 7] +
               (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + words[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRoundConstants[t] + words[t];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State added = {a, b, c, d, e, f, g, h};
  std::transform(state.begin(), state.end(), added.begin(), state.begin(), std::plus<>());
}

}  // namespace

Digest sha256(std::string_view bytes) {
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string padded(bytes);
  padded += '\x80';
  padded.append((kBlockBytes + 56 - padded.size() % kBlockBytes) % kBlockBytes, '\0');
  const uint64_t bits = uint64_t{8} * bytes.size();
  for (int shift = 56; shift >= 0; shift -= 8) {
    padded += static_cast<char>(bits >> shift & 0xff);
  }
  for (size_t offset = 0; offset < padded.size(); offset += kBlockBytes) {
    add_block(state, std::string_view(padded).substr(offset, kBlockBytes));
  }
  Digest digest{};
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::string block(key);
  const auto append = [](std::string& text, const Digest& digest) {
    text.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  if (key.size() > kBlockBytes) {
    block.clear();
    append(block, sha256(key));
  }
  block.resize(kBlockBytes, '\0');
  std::string inner;
  std::string outer;
  for (const char letter : block) {
    inner += static_cast<char>(letter ^ 0x36);
    outer += static_cast<char>(letter ^ 0x5c);
  }
  inner += message;
  append(outer, sha256(inner));
  return sha256(outer);
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  uint32_t differences = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    differences |= static_cast<uint32_t>(a[i] ^ b[i]);
  }
  return differences == 0;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<uint8_t>(byte) >> 4];
    text += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return text;
}

}  // namespace cadre
