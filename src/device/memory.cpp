#include "device/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/step_error.h"

namespace cadre {
namespace {

size_t mapped_bytes(int64_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (static_cast<size_t>(bytes) + page - 1) / page * page;
}

void touch_every_page(std::byte* block, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(block, bytes, MADV_POPULATE_WRITE) == 0) {
    return;
  }
#endif
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < bytes; offset += page) {
    *static_cast<volatile std::byte*>(block + offset) = std::byte{0};
  }
}

}  // namespace

std::byte* HeapMemory::take(int64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  const size_t size = mapped_bytes(bytes);
  void* const block =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    throw StepError(
        concat("memory: the system refused ", size, " bytes: ", std::strerror(errno),
               "; a smaller micro_batch_size or gradient_checkpointing: true needs less"));
  }
  // Only advice: without huge pages the run is slower, not wrong.
  static_cast<void>(madvise(block, size, MADV_HUGEPAGE));
  touch_every_page(static_cast<std::byte*>(block), size);
  return static_cast<std::byte*>(block);
}

void HeapMemory::give_back(std::byte* block, int64_t bytes) {
  if (block != nullptr) {
    CADRE_CHECK(munmap(block, mapped_bytes(bytes)) == 0, std::strerror(errno));
  }
}

}  // namespace cadre
