// Arena: memory of one category, one range of addresses, booked in the trace.
//
// Blocks come and go in any order; a block is placed at the lowest address where it fits. So the
// same sequence of allocations gives the same addresses on every device, and the high-water mark of
// a rehearsal on meta is the capacity that the run needs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/memory.h"
#include "telemetry/trace.h"

namespace cadre {

class Arena {
 public:
  struct Options {
    MemoryCategory category = MemoryCategory::kActivations;
    int64_t capacity_bytes = 0;
  };

  // Bytes of an arena, given back when it ends. The arena outlives its blocks.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { swap(other); }
    Block& operator=(Block&& other) noexcept {
      Block(std::move(other)).swap(*this);
      return *this;
    }
    ~Block() {
      if (arena_ != nullptr) {
        arena_->release(offset_, bytes_);
      }
    }

    std::byte* data() const { return data_; }
    int64_t bytes() const { return bytes_; }  // a multiple of kAlignment
    bool empty() const { return arena_ == nullptr; }

   private:
    friend class Arena;
    Block(Arena* arena, std::byte* data, int64_t offset, int64_t bytes)
        : arena_(arena), data_(data), offset_(offset), bytes_(bytes) {}
    void swap(Block& other) noexcept {
      std::swap(arena_, other.arena_);
      std::swap(data_, other.data_);
      std::swap(offset_, other.offset_);
      std::swap(bytes_, other.bytes_);
    }

    Arena* arena_ = nullptr;
    std::byte* data_ = nullptr;
    int64_t offset_ = 0;
    int64_t bytes_ = 0;
  };

  // `source` and `trace` outlive the arena.
  Arena(MemorySource& source, Trace& trace, const Options& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The contents are undefined. An arena that is too small is our bug: its capacity was planned.
  [[nodiscard]] Block allocate(int64_t bytes);

  MemoryCategory category() const { return options_.category; }
  int64_t capacity_bytes() const { return options_.capacity_bytes; }
  int64_t used_bytes() const { return used_; }
  int64_t peak_bytes() const { return peak_; }  // the highest address ever handed out

 private:
  struct Gap {
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  void release(int64_t offset, int64_t bytes);

  MemorySource& source_;
  Trace& trace_;
  Options options_;
  std::byte* block_;
  std::vector<Gap> gaps_;  // by offset; never two that touch
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace cadre
