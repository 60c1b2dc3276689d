// PageBuffer: whole pages from the system, given back when it ends; never from malloc's heap, which
// would keep them. For buffers that large reads and writes go through.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace cadre {

class PageBuffer {
 public:
  PageBuffer() = default;
  // Zeroes. A machine that has no memory left for it ends the process: it is a few MiB.
  explicit PageBuffer(int64_t bytes);
  PageBuffer(PageBuffer&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PageBuffer();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace cadre
