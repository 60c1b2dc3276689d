// FullDisk: a place where writing stops after so many bytes, for tests of what happens then.

#pragma once

#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/check.h"
#include "testing/temporary_folder.h"

namespace cadre::testing {

// A file system of `bytes` bytes in memory, if this user may mount one (root); otherwise the system
// is asked to refuse files that grow beyond `bytes`, which code that writes meets in the same way:
// a write that fails. One at a time.
class FullDisk {
 public:
  explicit FullDisk(int64_t bytes) {
    const std::string options = "size=" + std::to_string(bytes);
    mounted_ = mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (!mounted_) {
      CADRE_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
      old_handler_ = std::signal(SIGXFSZ, SIG_IGN);  // so that write() returns instead
      rlimit limit = before_;
      limit.rlim_cur = static_cast<rlim_t>(bytes);
      CADRE_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
  }
  ~FullDisk() {
    if (mounted_) {
      umount2(folder_.path().c_str(), MNT_DETACH);
    } else {
      setrlimit(RLIMIT_FSIZE, &before_);
      static_cast<void>(std::signal(SIGXFSZ, old_handler_));
    }
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false;
  rlimit before_ = {};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace cadre::testing
