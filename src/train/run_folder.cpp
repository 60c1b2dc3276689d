#include "train/run_folder.h"

#include <system_error>

#include "storage/file.h"
#include "storage/safe_writer.h"

namespace cadre::train {
namespace {

namespace fs = std::filesystem;

// The nearest folder above `path` that exists.
fs::path existing_parent(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && !fs::exists(path, ignored) && path.has_parent_path() &&
         path.parent_path() != path) {
    path = path.parent_path();
  }
  return path.empty() ? fs::path(".") : path;
}

constexpr const char* kOriginName = "resumed_from";

}  // namespace

fs::path RunFolder::origin() const {
  const Result<std::string> text = read_file(folder_ / kOriginName);
  return text ? fs::path(*text) : fs::path();
}

Status RunFolder::set_origin(const fs::path& checkpoint) {
  std::error_code ignored;
  return write_file(folder_ / kOriginName, fs::weakly_canonical(checkpoint, ignored).string());
}

Result<RunFolder> RunFolder::find(const fs::path& folder) {
  RunFolder run(fs::absolute(folder).lexically_normal());
  std::error_code ignored;
  if (fs::exists(run.folder_, ignored) && !fs::is_directory(run.folder_, ignored)) {
    return input_error("run folder ", run.folder_.string(), ": is a file, not a folder");
  }
  for (const fs::path& written : {run.folder_, run.checkpoints()}) {
    if (Status status = check_writable(existing_parent(written)); !status) {
      return status.error();
    }
  }
  Result<std::optional<FolderLock>> lock = FolderLock::acquire_quietly(run.folder_);
  if (!lock) {
    return lock.error();
  }
  run.lock_ = std::move(*lock);
  return run;
}

Status RunFolder::create() {
  for (const fs::path& folder : {folder_, checkpoints(), rank_log().parent_path()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      return input_error("run folder ", folder.string(), ": cannot be created: ", error.message());
    }
  }
  if (lock_) {
    return lock_->announce();
  }
  Result<FolderLock> lock = FolderLock::acquire(folder_);
  if (!lock) {
    return lock.error();
  }
  lock_ = std::move(*lock);
  return {};
}

}  // namespace cadre::train
