#include "storage/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/text.h"

namespace cadre {
namespace {

bool is_the_users(int error_number) {
  switch (error_number) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EROFS:
      return true;
    default:
      return false;
  }
}

// `folder`, or the nearest one above it that exists.
std::filesystem::path nearest_existing(std::filesystem::path folder) {
  std::error_code ignored;  // what cannot be looked at is tried, and refuses then
  folder = std::filesystem::absolute(folder, ignored);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder;
}

}  // namespace

Error file_error(std::string_view operation, const std::filesystem::path& path, int error_number) {
  return {is_the_users(error_number) ? ErrorKind::kInput : ErrorKind::kFailure,
          concat("cannot ", operation, " \"", path.string(), "\": ", std::strerror(error_number))};
}

FileDescriptor::~FileDescriptor() {
  if (is_open()) {
    ::close(number_);
  }
}

int FileDescriptor::close_now() {
  return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno;
}

Result<ReadableFile> ReadableFile::open(const std::filesystem::path& path) {
  ReadableFile result;
  result.path_ = path;
  result.file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts = {};
  if (!result.file_.is_open() || fstat(result.file_.number(), &facts) != 0) {
    return file_error("open", path, errno);
  }
  if (!S_ISREG(facts.st_mode)) {
    return input_error("cannot read \"", path.string(), "\": it is not a regular file");
  }
  result.bytes_ = facts.st_size;
  return result;
}

Status ReadableFile::read_at(int64_t offset, std::span<std::byte> destination) const {
  CADRE_CHECK(offset >= 0, offset);
  while (!destination.empty()) {
    const ssize_t count = pread(file_.number(), destination.data(), destination.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return file_error("read", path_, errno);
    }
    if (count == 0) {
      return input_error("cannot read \"", path_.string(), "\": it ends at byte ", offset,
                         ", where it had ", bytes_, " when it was opened");
    }
    destination = destination.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return {};
}

Result<std::string> read_file(const std::filesystem::path& path, int64_t bytes_max) {
  const Result<ReadableFile> file = ReadableFile::open(path);
  if (!file) {
    return file.error();
  }
  if (file->bytes() > bytes_max) {
    return input_error("cannot read \"", path.string(), "\": it has ", file->bytes(),
                       " bytes, at most ", bytes_max, " are allowed");
  }
  std::string text(static_cast<size_t>(file->bytes()), '\0');
  if (Status status = file->read_at(0, std::as_writable_bytes(std::span(text))); !status) {
    return status.error();
  }
  return text;
}

Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) {
    return std::vector<std::string>();
  }
  if (error) {
    return file_error("list", folder, error.value());
  }
  std::ranges::sort(names);
  return names;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return file_error("make the folder", folder, error.value());
  }
  return {};
}

Status check_writable(const std::filesystem::path& folder) {
  const std::filesystem::path place = nearest_existing(folder);
  // A file without a name: nothing is left behind, whatever happens.
  FileDescriptor probe(::open(place.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!probe.is_open() && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    const std::filesystem::path named = place / concat(".tmp-writable-", getpid());
    probe = FileDescriptor(::open(named.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (probe.is_open()) {
      unlink(named.c_str());
    }
  }
  if (!probe.is_open()) {
    Error error = file_error("write into", place, errno);
    error.kind = ErrorKind::kInput;
    return error;
  }
  return {};
}

}  // namespace cadre
