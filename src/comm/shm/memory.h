// The part of the shared memory that is this rank's to give out.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/shm/mapping.h"
#include "device/memory.h"

namespace cadre::comm::shm {

class DataMemory final : public MemorySource {
 public:
  // `mapping` outlives it.
  explicit DataMemory(const Mapping& mapping);

  // All pages are touched: a training step never waits for a fresh one.
  std::byte* take(int64_t bytes) override;
  void give_back(std::byte* block, int64_t bytes) override;

  bool holds(const std::byte* data) const {
    return mapping_.data() <= data && data < mapping_.data() + mapping_.bytes();
  }
  int64_t offset_of(const std::byte* data) const { return data - mapping_.data(); }

  // Room for a copy of a buffer that lies elsewhere. Kept for the next one when it is returned.
  std::byte* take_stage(int64_t bytes);
  void return_stage(std::byte* stage);

 private:
  struct Stage {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool used = false;
  };

  const Mapping& mapping_;
  std::map<int64_t, int64_t> gaps_;  // bytes by offset; never two that touch
  std::vector<Stage> stages_;
};

}  // namespace cadre::comm::shm
