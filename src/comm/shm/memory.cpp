#include "comm/shm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/step_error.h"

namespace cadre::comm::shm {
namespace {

int64_t whole_pages(int64_t bytes) {
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

DataMemory::DataMemory(const Mapping& mapping) : mapping_(mapping) {
  gaps_[0] = mapping.bytes();
}

std::byte* DataMemory::take(int64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  const int64_t size = whole_pages(bytes);
  const auto gap =
      std::ranges::find_if(gaps_, [size](const auto& entry) { return entry.second >= size; });
  // Pages that the machine does not have would end the process when they are touched; so they are
  // asked for, and refused here.
  if (gap == gaps_.end() || posix_fallocate(mapping_.file(), gap->first, size) != 0) {
    throw StepError(
        concat("shared memory: the system refused ", size,
               " bytes; a smaller micro_batch_size or fewer ranks on a host need less"));
  }
  const auto [offset, room] = *gap;
  gaps_.erase(gap);
  if (room > size) {
    gaps_[offset + size] = room - size;
  }
  std::byte* const block = mapping_.data() + offset;
  for (int64_t page = 0; page < size; page += whole_pages(1)) {
    *static_cast<volatile std::byte*>(block + page) = std::byte{0};
  }
  return block;
}

void DataMemory::give_back(std::byte* block, int64_t bytes) {
  if (block == nullptr) {
    return;
  }
  int64_t offset = offset_of(block);
  int64_t size = whole_pages(bytes);
  CADRE_CHECK(
      fallocate(mapping_.file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size) == 0,
      std::strerror(errno));
  const auto next = gaps_.find(offset + size);
  if (next != gaps_.end()) {
    size += next->second;
    gaps_.erase(next);
  }
  const auto after = gaps_.lower_bound(offset);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  gaps_[offset] = size;
}

std::byte* DataMemory::take_stage(int64_t bytes) {
  for (Stage& stage : stages_) {
    if (!stage.used && stage.bytes >= bytes) {
      stage.used = true;
      return stage.data;
    }
  }
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  stages_.push_back({.data = take(size), .bytes = size, .used = true});
  // Small ones first, so that a small buffer does not take the room of a large one.
  std::byte* const data = stages_.back().data;
  std::ranges::stable_sort(stages_, {}, &Stage::bytes);
  return data;
}

void DataMemory::return_stage(std::byte* data) {
  const auto stage = std::ranges::find(stages_, data, &Stage::data);
  CADRE_CHECK(stage != stages_.end(), "not a stage");
  stage->used = false;
}

}  // namespace cadre::comm::shm
