#include "storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/check.h"

namespace cadre {
namespace {

// What the owner wrote into its lock file, or that it is not known.
std::string owner_in(const FileDescriptor& file) {
  std::array<char, 128> text = {};
  const ssize_t count = pread(file.number(), text.data(), text.size(), 0);
  std::string owner(text.data(), count > 0 ? static_cast<size_t>(count) : 0);
  owner.resize(owner.find_first_of("\n") == std::string::npos ? 0 : owner.find('\n'));
  return owner.empty() ? "another process" : owner;
}

std::string this_process() {
  std::array<char, 65> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) {
    return concat("process ", getpid());
  }
  return concat("process ", getpid(), " on ", host.data());
}

}  // namespace

Result<FolderLock> FolderLock::acquire(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    return file_error("open the lock", path, errno);
  }
  if (flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return file_error("lock", path, errno);
    }
    return input_error("\"", folder.string(), "\" is in use by ", owner_in(file),
                       "; wait until it ends, or choose another folder");
  }
  const std::string text = this_process() + "\n";
  if (ftruncate(file.number(), 0) != 0 ||
      pwrite(file.number(), text.data(), text.size(), 0) != std::ssize(text)) {
    return file_error("write the lock", path, errno);
  }
  return FolderLock(std::move(file));
}

}  // namespace cadre
