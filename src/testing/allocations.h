// Counts what a test program asks malloc and mmap for: every form of both, operator new included.
// A program that uses this lists ../testing/allocations.cpp among its TESTS; it replaces malloc.

#pragma once

#include <cstdint>

namespace cadre::testing {

// False under a sanitizer, which brings an allocator of its own, and where malloc is not glibc's:
// then nothing is counted, and a test that needs it skips itself.
bool allocations_are_counted();

inline constexpr const char* kNotCounted =
    "a sanitizer, or a C library other than glibc: malloc cannot be replaced";

// Since the last call of count_allocations_anew(), by all threads.
struct Allocations {
  int64_t blocks = 0;            // of malloc
  int64_t block_bytes_max = 0;   // the largest of them
  int64_t large_blocks = 0;      // over 64 KiB
  int64_t growth_bytes_max = 0;  // of what malloc has given out and not got back
  int64_t mappings = 0;          // of mmap without a file
  int64_t mapped_bytes_max = 0;  // the largest of them
};

Allocations allocations();
void count_allocations_anew();

}  // namespace cadre::testing
