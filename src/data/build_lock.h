// BuildLock: one process at a time builds a folder of the cache. The kernel gives the lock up when
// the process ends, however it ends.

#pragma once

#include <filesystem>

#include "base/log.h"
#include "base/result.h"
#include "data/stop.h"
#include "storage/file.h"

namespace cadre::data {

class BuildLock {
 public:
  // Locks the file `path`, which is made, and the folders above it. Waits while another process (or
  // thread) holds it, and says so to `log` (nullptr: silently), unless `stop` wants an end.
  static Result<BuildLock> acquire(const std::filesystem::path& path, Log* log,
                                   const StopAsked& stop);

  BuildLock(BuildLock&& other) noexcept = default;
  BuildLock& operator=(BuildLock&&) = delete;
  // Removes the file, and those folders above it that acquire() made and that are empty.
  ~BuildLock();

 private:
  BuildLock(std::filesystem::path path, std::filesystem::path existing, FileDescriptor file)
      : path_(std::move(path)), existing_(std::move(existing)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::filesystem::path existing_;  // the lowest folder above it that was there before
  FileDescriptor file_;             // closed: moved from
};

}  // namespace cadre::data
