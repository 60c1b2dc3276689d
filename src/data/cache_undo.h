// CacheUndo: takes back what a refused run has put into the cache.
//
// A run that ends because its input is wrong changes nothing, also where it was already half
// prepared when that was found: the second source is bad, the weights do not fit. What was made of
// a large input stays: it is complete, costs nothing if it is never used, and saves an hour when
// the mistake is mended.

#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cadre::data {

class CacheUndo {
 public:
  static constexpr int64_t kInputBytesKept = int64_t{256} << 20;

  explicit CacheUndo(const std::filesystem::path& cache_directory);
  CacheUndo(const CacheUndo&) = delete;
  CacheUndo& operator=(const CacheUndo&) = delete;
  // Removes what was added, unless keep() was called, and the folders above that are empty now and
  // were not there before.
  ~CacheUndo();

  // `folder` of the cache was built from so many bytes by this process.
  void add(const std::filesystem::path& folder, int64_t input_bytes);
  void keep() { folders_.clear(); }

 private:
  std::filesystem::path cache_;
  std::filesystem::path existing_;  // the lowest folder that was there before
  std::vector<std::filesystem::path> folders_;
};

// The lowest folder above `path` that exists.
std::filesystem::path existing_folder_above(const std::filesystem::path& path);

// Removes `folder` and those above it up to `existing`, while they are empty.
void remove_empty_folders(std::filesystem::path folder, const std::filesystem::path& existing);

}  // namespace cadre::data
