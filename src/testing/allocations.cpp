#include "testing/allocations.h"

#include <cstdlib>  // defines __GLIBC__

#if defined(__GLIBC__) && !defined(CADRE_SANITIZED)

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

// glibc's own, under the names that are for those who replace the public ones.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);
}

namespace {

// Constant-initialized: malloc is called before any constructor runs.
constinit std::atomic<int64_t> blocks = 0;
constinit std::atomic<int64_t> large_blocks = 0;
constinit std::atomic<int64_t> block_bytes_max = 0;
constinit std::atomic<int64_t> live_bytes = 0;
constinit std::atomic<int64_t> live_bytes_before = 0;
constinit std::atomic<int64_t> live_bytes_max = 0;
constinit std::atomic<int64_t> mappings = 0;
constinit std::atomic<int64_t> mapped_bytes_max = 0;

constexpr int64_t kLargeBytes = 64 << 10;

void raise_to(std::atomic<int64_t>& most, int64_t value) {
  int64_t seen = most;
  while (value > seen && !most.compare_exchange_weak(seen, value)) {
  }
}

void* counted(void* block, size_t bytes) {
  if (block == nullptr) {
    return block;
  }
  const auto asked = static_cast<int64_t>(bytes);
  ++blocks;
  raise_to(block_bytes_max, asked);
  if (asked > kLargeBytes) {
    ++large_blocks;
  }
  const auto usable = static_cast<int64_t>(malloc_usable_size(block));
  raise_to(live_bytes_max, live_bytes.fetch_add(usable) + usable);
  return block;
}

void forget(void* block) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(block));
}

}  // namespace

// Operator new of the standard library calls malloc or aligned_alloc. noexcept as glibc's headers
// have it.
extern "C" {

void* malloc(size_t bytes) noexcept {
  return counted(__libc_malloc(bytes), bytes);
}

void* calloc(size_t count, size_t bytes) noexcept {
  return counted(__libc_calloc(count, bytes), count * bytes);
}

void* realloc(void* block, size_t bytes) noexcept {
  forget(block);
  void* const moved = __libc_realloc(block, bytes);
  if (moved == nullptr && bytes > 0 && block != nullptr) {
    live_bytes += static_cast<int64_t>(malloc_usable_size(block));  // it stays as it was
  }
  return counted(moved, bytes);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes), bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return memalign(alignment, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  void* const taken = memalign(alignment, bytes);
  if (taken == nullptr) {
    return ENOMEM;
  }
  *block = taken;
  return 0;
}

void free(void* block) noexcept {
  forget(block);
  __libc_free(block);
}

// glibc maps malloc's large blocks by a name of its own: they are not counted twice.
void* mmap(void* address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) != 0) {
    ++mappings;
    raise_to(mapped_bytes_max, static_cast<int64_t>(bytes));
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how system calls give addresses.
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // extern "C"

namespace cadre::testing {

bool allocations_are_counted() {
  return true;
}

Allocations allocations() {
  return {.blocks = blocks,
          .block_bytes_max = block_bytes_max,
          .large_blocks = large_blocks,
          .growth_bytes_max = live_bytes_max - live_bytes_before,
          .mappings = mappings,
          .mapped_bytes_max = mapped_bytes_max};
}

void count_allocations_anew() {
  blocks = 0;
  block_bytes_max = 0;
  large_blocks = 0;
  mappings = 0;
  mapped_bytes_max = 0;
  const int64_t now = live_bytes;
  live_bytes_before = now;
  live_bytes_max = now;
}

}  // namespace cadre::testing

#else

namespace cadre::testing {

bool allocations_are_counted() {
  return false;
}
Allocations allocations() {
  return {};
}
void count_allocations_anew() {}

}  // namespace cadre::testing

#endif
