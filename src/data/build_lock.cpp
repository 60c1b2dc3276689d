#include "data/build_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "data/cache_undo.h"

namespace cadre::data {
namespace {

namespace fs = std::filesystem;

// Waits for the lock; returns the system's error number or 0.
int lock_file(const FileDescriptor& file, const fs::path& path, Log* log) {
  if (::flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
    return 0;
  }
  if (errno == EWOULDBLOCK && log != nullptr) {
    log->info("data",
              fmt::format("waiting for another process that prepares path=\"{}\"", path.string()));
  }
  while (::flock(file.number(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Whoever held the lock before removed the file: the lock that was got is one of nothing.
bool still_has_name(const FileDescriptor& file, const fs::path& path) {
  struct stat mine = {};
  struct stat named = {};
  return fstat(file.number(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

}  // namespace

Result<BuildLock> BuildLock::acquire(const fs::path& path, Log* log) {
  const fs::path existing = existing_folder_above(path);
  for (;;) {
    if (const Status made = make_folder(fs::absolute(path).parent_path()); !made) {
      return made.error();
    }
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.is_open()) {
      if (errno == ENOENT) {  // another process found the folder empty and removed it
        continue;
      }
      return file_error("create", path, errno);
    }
    if (const int error = lock_file(file, path, log); error != 0) {
      return file_error("lock", path, error);
    }
    if (still_has_name(file, path)) {
      return BuildLock(path, existing, std::move(file));
    }
  }
}

BuildLock::~BuildLock() {
  if (!file_.is_open()) {
    return;
  }
  std::error_code refused;
  fs::remove(path_, refused);
  if (!refused) {
    remove_empty_folders(fs::absolute(path_).parent_path(), existing_);
  }
}

}  // namespace cadre::data
