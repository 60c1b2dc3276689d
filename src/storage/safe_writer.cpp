#include "storage/safe_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace cadre {
namespace {

// Whatever stops a write is the machine's doing: a result that was computed cannot be stored.
Error write_failure(std::string_view operation, const std::filesystem::path& path,
                    int error_number) {
  Error error = file_error(operation, path, error_number);
  error.kind = ErrorKind::kFailure;
  return error;
}

}  // namespace

Result<FileWriter> FileWriter::create(const std::filesystem::path& path,
                                      std::span<std::byte> buffer) {
  FileWriter writer;
  writer.path_ = path;
  writer.file_ =
      FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!writer.file_.is_open()) {
    return write_failure("create", path, errno);
  }
  if (buffer.empty()) {
    writer.own_buffer_ = PageBuffer(kWriteBufferBytes);
    buffer = writer.own_buffer_.bytes();
  }
  writer.buffer_ = buffer;
  return writer;
}

FileWriter::~FileWriter() {
  if (file_.is_open()) {  // neither finished nor moved from
    unlink(path_.c_str());
  }
}

Error FileWriter::fail(std::string_view operation, int error_number) {
  error_ = write_failure(operation, path_, error_number);
  return *error_;
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const Result<std::span<std::byte>> free = room();
    if (!free) {
      return free.error();
    }
    const size_t count = std::min(free->size(), bytes.size());
    std::memcpy(free->data(), bytes.data(), count);
    advance(static_cast<int64_t>(count));
    bytes = bytes.subspan(count);
  }
  return {};
}

Status FileWriter::append(std::string_view text) {
  return append(std::as_bytes(std::span(text)));
}

Result<std::span<std::byte>> FileWriter::room() {
  if (error_) {
    return *error_;
  }
  if (used_ == std::ssize(buffer_)) {
    if (Status status = flush(); !status) {
      return status.error();
    }
  }
  return buffer_.subspan(static_cast<size_t>(used_));
}

void FileWriter::advance(int64_t bytes) {
  CADRE_CHECK(0 <= bytes && used_ + bytes <= std::ssize(buffer_), bytes, " after ", used_);
  used_ += bytes;
}

Status FileWriter::flush() {
  const std::span<const std::byte> bytes = buffer_.first(static_cast<size_t>(used_));
  checksum_.add(bytes);
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = write(file_.number(), bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {  // a short write is carried on; the next one tells what is wrong
      return fail("write", count == 0 ? ENOSPC : errno);
    }
    written += static_cast<size_t>(count);
  }
  bytes_flushed_ += std::exchange(used_, 0);
  return {};
}

Result<FileSummary> FileWriter::finish() {
  CADRE_CHECK(file_.is_open(), "\"", path_.string(), "\" was finished before");
  if (error_) {
    return *error_;
  }
  if (Status status = flush(); !status) {
    return status.error();
  }
  if (fsync(file_.number()) != 0) {
    return fail("make durable", errno);
  }
  struct stat facts = {};
  if (fstat(file_.number(), &facts) != 0) {
    return fail("look at", errno);
  }
  if (facts.st_size != bytes_flushed_) {
    error_ = failure("cannot write \"", path_.string(), "\": it has ", facts.st_size, " bytes, ",
                     bytes_flushed_, " were written");
    return *error_;
  }
  if (const int error = file_.close_now(); error != 0) {
    unlink(path_.c_str());
    return fail("close", error);
  }
  return FileSummary{.bytes = bytes_flushed_, .checksum = checksum_.value()};
}

SafeWriter::SafeWriter(std::filesystem::path path, std::filesystem::path temporary,
                       FileWriter writer)
    : path_(std::move(path)), temporary_(std::move(temporary)), writer_(std::move(writer)) {}

Result<SafeWriter> SafeWriter::create(const std::filesystem::path& path,
                                      std::span<std::byte> buffer) {
  static std::atomic<int> count = 0;  // two writers of one name in one process do not meet
  const std::filesystem::path temporary =
      path.parent_path() / concat(".tmp-", path.filename().string(), "-", getpid(), "-", ++count);
  Result<FileWriter> writer = FileWriter::create(temporary, buffer);
  if (!writer) {
    return writer.error();
  }
  return SafeWriter(path, temporary, std::move(*writer));
}

Result<FileSummary> SafeWriter::publish() {
  Result<FileSummary> summary = writer_.finish();
  if (!summary) {
    return summary;
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    return write_failure("rename a finished file to", path_, error);
  }
  if (Status status = sync_folder(path_.parent_path()); !status) {
    return status.error();
  }
  return summary;
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  Result<SafeWriter> writer = SafeWriter::create(path);
  if (!writer) {
    return writer.error();
  }
  if (Status status = writer->append(text); !status) {
    return status;
  }
  if (Result<FileSummary> summary = writer->publish(); !summary) {
    return summary.error();
  }
  return {};
}

Status sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path& place = folder.empty() ? std::filesystem::path(".") : folder;
  const FileDescriptor descriptor(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) {
    return write_failure("open", place, errno);
  }
  // Some file systems (FUSE, SMB) have no such call for folders and say EINVAL: nothing more can be
  // done there.
  if (fsync(descriptor.number()) != 0 && errno != EINVAL) {
    return write_failure("make durable", place, errno);
  }
  return {};
}

}  // namespace cadre
