#include "data/build_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "data/cache_undo.h"

namespace cadre::data {
namespace {

namespace fs = std::filesystem;

// Waits for the lock. Asks again and again instead of sleeping in the kernel: a signal that asks
// for a stop may go to any thread of the process, and then wakes no other.
Status lock_file(const FileDescriptor& file, const fs::path& path, Log* log,
                 const StopAsked& stop) {
  constexpr std::chrono::milliseconds kPause(20);
  bool told = log == nullptr;
  while (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return file_error("lock", path, errno);
    }
    if (const Status stopped = stop_status(stop); !stopped) {
      return stopped;
    }
    if (!std::exchange(told, true)) {
      log->info("data", fmt::format("waiting for another process that prepares path=\"{}\"",
                                    path.string()));
    }
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

// Whoever held the lock before removed the file: the lock that was got is one of nothing.
bool still_has_name(const FileDescriptor& file, const fs::path& path) {
  struct stat mine = {};
  struct stat named = {};
  return fstat(file.number(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

}  // namespace

Result<BuildLock> BuildLock::acquire(const fs::path& path, Log* log, const StopAsked& stop) {
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
    if (const Status locked = lock_file(file, path, log, stop); !locked) {
      return locked.error();
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
