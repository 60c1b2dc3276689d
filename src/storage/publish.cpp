#include "storage/publish.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "storage/file.h"
#include "storage/safe_writer.h"

namespace cadre {
namespace {

std::filesystem::path temporary_name(const std::filesystem::path& target, std::string_view what) {
  return target.parent_path() / concat(kTemporaryPrefix, what, target.filename().string());
}

Error folder_failure(std::string_view operation, const std::filesystem::path& folder, int number) {
  Error error = file_error(operation, folder, number);
  error.kind = ErrorKind::kFailure;
  return error;
}

Status remove_tree(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) {
    return folder_failure("remove", folder, error.value());
  }
  return {};
}

Status sync_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || fsync(file.number()) != 0) {
    return folder_failure("make durable", path, errno);
  }
  return {};
}

// Gives `temporary` the name `target`. Another folder that had the name is removed.
Status take_name(const std::filesystem::path& temporary, const std::filesystem::path& target) {
  if (rename(temporary.c_str(), target.c_str()) == 0) {
    return {};
  }
  if (errno != ENOTEMPTY && errno != EEXIST) {
    return folder_failure("publish", target, errno);
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return remove_tree(temporary);
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return folder_failure("publish", target, errno);
  }
  // A file system that cannot exchange, such as NFS: between the two renames nothing has the name.
  const std::filesystem::path old = temporary_name(target, "replaced-");
  if (Status status = remove_tree(old); !status) {
    return status;
  }
  if (rename(target.c_str(), old.c_str()) != 0 || rename(temporary.c_str(), target.c_str()) != 0) {
    return folder_failure("publish", target, errno);
  }
  return remove_tree(old);
}

}  // namespace

FolderPublisher::FolderPublisher(std::filesystem::path target, std::filesystem::path temporary)
    : target_(std::move(target)), temporary_(std::move(temporary)) {}

FolderPublisher::FolderPublisher(FolderPublisher&& other) noexcept
    : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})) {}

FolderPublisher::~FolderPublisher() {
  if (!temporary_.empty()) {
    std::error_code ignored;  // what stays behind is temporary by its name and purged later
    std::filesystem::remove_all(temporary_, ignored);
  }
}

Result<FolderPublisher> FolderPublisher::begin(const std::filesystem::path& target) {
  CADRE_CHECK(!target.filename().empty(), "\"", target.string(), "\" ends with a slash");
  const std::filesystem::path temporary = temporary_name(target, "");
  Status status = make_folder(target.has_parent_path() ? target.parent_path() : ".");
  if (status) {
    status = remove_tree(temporary);
  }
  if (status) {
    status = make_folder(temporary);
  }
  if (!status) {
    return failure(status.error().message);
  }
  return FolderPublisher(target, temporary);
}

Status FolderPublisher::publish() {
  CADRE_CHECK(!temporary_.empty(), "published before");
  const Result<std::vector<std::string>> names = list_folder(temporary_);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    if (Status status = sync_file(temporary_ / name); !status) {
      return status;
    }
  }
  if (Status status = sync_folder(temporary_); !status) {
    return status;
  }
  if (Status status = take_name(temporary_, target_); !status) {
    return status;
  }
  temporary_.clear();
  return sync_folder(target_.parent_path());
}

Status remove_folder(const std::filesystem::path& folder) {
  const std::filesystem::path doomed = temporary_name(folder, "removed-");
  if (Status status = remove_tree(doomed); !status) {
    return status;
  }
  if (rename(folder.c_str(), doomed.c_str()) != 0) {
    return folder_failure("remove", folder, errno);
  }
  return remove_tree(doomed);
}

}  // namespace cadre
