#include "data/cache_undo.h"

#include <system_error>

#include "storage/publish.h"

namespace cadre::data {

namespace fs = std::filesystem;

fs::path existing_folder_above(const fs::path& path) {
  fs::path folder = fs::absolute(path).parent_path();
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

void remove_empty_folders(fs::path folder, const fs::path& existing) {
  // A folder that is not empty refuses, and so ends the way up.
  for (std::error_code refused; !refused && folder != existing && folder.has_relative_path();
       folder = folder.parent_path()) {
    fs::remove(folder, refused);
  }
}

CacheUndo::CacheUndo(const fs::path& cache_directory)
    : cache_(fs::absolute(cache_directory).lexically_normal()),
      existing_(existing_folder_above(cache_ / "entry")) {}

CacheUndo::~CacheUndo() {
  if (folders_.empty()) {
    return;
  }
  for (const fs::path& folder : folders_) {
    // What cannot be removed is a valid part of the cache: nothing is lost if it stays.
    static_cast<void>(remove_folder(folder));
  }
  remove_empty_folders(cache_, existing_);
}

void CacheUndo::add(const fs::path& folder, int64_t input_bytes) {
  if (input_bytes < kInputBytesKept) {
    folders_.push_back(folder);
  }
}

}  // namespace cadre::data
