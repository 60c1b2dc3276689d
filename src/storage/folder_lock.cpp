#include "storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "base/check.h"

namespace cadre {
namespace {

std::string this_host() {
  std::array<char, 65> host = {};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

// What the owner wrote into its lock file, unless that was an earlier owner.
std::string owner_in(const FileDescriptor& file) {
  std::array<char, 128> text = {};
  const ssize_t count = pread(file.number(), text.data(), text.size() - 1, 0);
  int process = 0;
  std::array<char, 65> host = {};
  if (count <= 0 || std::sscanf(text.data(), "process %d on %64s", &process, host.data()) != 2) {
    return "another process";
  }
  const bool ended = this_host() == host.data() && kill(process, 0) != 0 && errno == ESRCH;
  return ended ? "another process" : concat("process ", process, " on ", host.data());
}

}  // namespace

Result<FolderLock> FolderLock::lock(const std::filesystem::path& path, FileDescriptor file) {
  if (flock(file.number(), LOCK_EX | LOCK_NB) == 0) {
    return FolderLock(path, std::move(file));
  }
  if (errno != EWOULDBLOCK) {
    return file_error("lock", path, errno);
  }
  return input_error("\"", path.parent_path().string(), "\" is in use by ", owner_in(file),
                     "; wait until it ends, or choose another folder");
}

Status FolderLock::announce() {
  const std::string text = concat("process ", getpid(), " on ", this_host(), "\n");
  if (ftruncate(file_.number(), 0) != 0 ||
      pwrite(file_.number(), text.data(), text.size(), 0) != std::ssize(text)) {
    return file_error("write the lock", path_, errno);
  }
  return {};
}

Result<FolderLock> FolderLock::acquire(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    return file_error("open the lock", path, errno);
  }
  Result<FolderLock> locked = lock(path, std::move(file));
  if (locked) {
    if (const Status announced = locked->announce(); !announced) {
      return announced.error();
    }
  }
  return locked;
}

Result<std::optional<FolderLock>> FolderLock::acquire_quietly(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) {
      return std::optional<FolderLock>();
    }
    return file_error("open the lock", path, errno);
  }
  Result<FolderLock> locked = lock(path, std::move(file));
  if (!locked) {
    return locked.error();
  }
  return std::optional<FolderLock>(*std::move(locked));
}

}  // namespace cadre
