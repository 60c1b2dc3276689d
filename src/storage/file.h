// Files as the rest of the program sees them: read whole or in part, folders looked at.
//
// Errors name the operation, the file and what the system said. What the user named and is not
// there or may not be read is an input error; what the machine does (I/O errors, a full disk) is
// a failure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cadre {

// "cannot OPERATION "PATH": No such file or directory", of the kind that `error_number` deserves.
Error file_error(std::string_view operation, const std::filesystem::path& path, int error_number);

// An open file descriptor, closed when it ends.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

  // Closes now; returns the system's error number or 0. Some file systems report a full disk here.
  int close_now();

 private:
  int number_ = -1;
};

// The whole file. One of more than `bytes_max` bytes is refused, not cut.
Result<std::string> read_file(const std::filesystem::path& path,
                              int64_t bytes_max = int64_t{1} << 31);

// A regular file of a known size that is read at given places. May be used from several threads.
class ReadableFile {
 public:
  static Result<ReadableFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

  // Fills `destination` from `offset`. Refuses if the file has become shorter since it was opened.
  Status read_at(int64_t offset, std::span<std::byte> destination) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t bytes_ = 0;
};

// Names, not paths, of what a folder holds, sorted. A folder that does not exist is empty.
Result<std::vector<std::string>> list_folder(const std::filesystem::path& folder);

// Whether something has that name. False, too, where nobody may look.
bool is_there(const std::filesystem::path& path);

// Makes the folder and those above it.
Status make_folder(const std::filesystem::path& folder);

// Refuses a folder where no file could be created, by trying, so that this is known before hours of
// work are to be stored there. If it does not exist yet, the nearest folder above it is tried.
// Leaves nothing behind.
Status check_writable(const std::filesystem::path& folder);

}  // namespace cadre
