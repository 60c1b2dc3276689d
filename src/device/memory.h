// Where the bytes of arenas come from: the heap of this process, or, on meta, nowhere. (Shared
// memory and the memory of a GPU are other sources.)

#pragma once

#include <cstddef>
#include <cstdint>

namespace cadre {

inline constexpr int64_t kAlignment = 64;  // bytes; of every block and of every allocation

constexpr int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class MemorySource {
 public:
  virtual ~MemorySource() = default;

  // `bytes` zeroes, aligned to kAlignment. Throws StepError if the machine has no more.
  virtual std::byte* take(int64_t bytes) = 0;
  virtual void give_back(std::byte* block, int64_t bytes) = 0;
};

// Pages of its own, huge ones where the kernel has them, all touched before take() returns: a
// training step never waits for a fresh page.
class HeapMemory final : public MemorySource {
 public:
  std::byte* take(int64_t bytes) override;
  void give_back(std::byte* block, int64_t bytes) override;
};

// Addresses without memory behind them: distinct, so that views can be compared, and far outside
// what an operating system hands out, so that touching one ends the process at once.
class MetaMemory final : public MemorySource {
 public:
  std::byte* take(int64_t bytes) override {
    const uintptr_t block = next_;
    next_ += static_cast<uintptr_t>(align_up(bytes));
    return reinterpret_cast<std::byte*>(block);
  }
  void give_back(std::byte*, int64_t) override {}

 private:
  uintptr_t next_ = uintptr_t{1} << 55;
};

}  // namespace cadre
