// SHA-256 (FIPS 180-4) and the authentication code HMAC over it (RFC 2104): for proving that one
// knows a secret without telling it.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cadre {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever they differ.
bool equal_in_constant_time(const Digest& a, const Digest& b);

std::string to_hex(std::string_view bytes);
inline std::string to_hex(const Digest& digest) {
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace cadre
