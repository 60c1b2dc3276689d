#include "testing/allocations.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace cadre::testing {
namespace {

constexpr size_t kBytes = 100000;

// A pointer that the compiler must believe in: it leaves out pairs of new and delete.
void* volatile kept = nullptr;

using Form = std::pair<std::string, std::function<void()>>;

std::vector<Form> forms() {
  const auto freed = [](auto take) {
    return [take] {
      kept = take();
      std::free(kept);
    };
  };
  return {
      {"malloc", freed([] { return std::malloc(kBytes); })},
      {"calloc", freed([] { return std::calloc(kBytes / 100, 100); })},
      {"realloc", freed([] { return std::realloc(std::malloc(10), kBytes); })},
      {"aligned_alloc", freed([] { return std::aligned_alloc(64, 1600 * 64); })},
      {"memalign", freed([] { return memalign(256, kBytes); })},
      {"posix_memalign", freed([] {
         void* block = nullptr;
         EXPECT_EQ(posix_memalign(&block, 64, kBytes), 0);
         return block;
       })},
      {"new",
       [] {
         kept = ::operator new(kBytes);
         ::operator delete(kept);
       }},
      {"new[] without exceptions",
       [] {
         kept = ::operator new[](kBytes, std::nothrow);
         ::operator delete[](kept);
       }},
      {"aligned new",
       [] {
         kept = ::operator new (kBytes, std::align_val_t{128});
         ::operator delete (kept, std::align_val_t{128});
       }},
      {"vector", [] { kept = std::vector<std::byte>(kBytes).data(); }},
  };
}

TEST(Allocations, CountEveryFormOfMallocOnce) {
  if (!allocations_are_counted()) {
    GTEST_SKIP() << kNotCounted;
  }
  for (const auto& [name, use] : forms()) {
    count_allocations_anew();
    use();
    const Allocations counted = allocations();
    EXPECT_EQ(counted.large_blocks, 1) << name;
    EXPECT_GE(counted.block_bytes_max, int64_t{kBytes}) << name;
    EXPECT_LE(counted.block_bytes_max, int64_t{1600} * 64) << name;
    EXPECT_GE(counted.growth_bytes_max, int64_t{kBytes}) << name;
    EXPECT_LE(counted.growth_bytes_max, int64_t{kBytes} + 8192) << name << ": given back before?";
    EXPECT_EQ(counted.mappings, 0) << name;
  }
}

TEST(Allocations, CountMappingsWithoutAFile) {
  if (!allocations_are_counted()) {
    GTEST_SKIP() << kNotCounted;
  }
  count_allocations_anew();
  void* const pages =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(munmap(pages, kBytes), 0);
  EXPECT_EQ(allocations().mappings, 1);
  EXPECT_EQ(allocations().mapped_bytes_max, int64_t{kBytes});
  EXPECT_EQ(allocations().blocks, 0);
}

}  // namespace
}  // namespace cadre::testing
