// FolderLock: one process at a time works in a folder. The kernel gives it up when the process
// ends, however it ends.

#pragma once

#include <filesystem>
#include <utility>

#include "base/result.h"
#include "storage/file.h"

namespace cadre {

class FolderLock {
 public:
  // Locks `folder`/.lock, which holds the process id of its owner and stays behind when the lock is
  // given up. A lock that another process (or this one) holds is refused at once, by that id.
  static Result<FolderLock> acquire(const std::filesystem::path& folder);

 private:
  explicit FolderLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

}  // namespace cadre
