// FileWriter and SafeWriter: files that are either complete on disk or not there.
//
// Bytes go through one large buffer of whole pages, so that the system sees few writes, each at an
// aligned offset. An error (a full disk, say) is a failure() that names the file; after it every
// call returns the same error, and the file is removed when the writer ends.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "storage/checksum.h"
#include "storage/file.h"
#include "storage/page_buffer.h"

namespace cadre {

inline constexpr int64_t kWriteBufferBytes = int64_t{4} << 20;

// Writes a new file under its final name: for files inside a folder that is not published yet.
class FileWriter {
 public:
  // `buffer` outlives the writer; empty: one of its own. An old file of that name is replaced.
  static Result<FileWriter> create(const std::filesystem::path& path,
                                   std::span<std::byte> buffer = {});
  FileWriter(FileWriter&&) noexcept = default;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();  // removes the file unless it was finished

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);

  // The free part of the buffer, never empty: what is put there needs no copy of its own. After it,
  // advance() says how much was put.
  Result<std::span<std::byte>> room();
  void advance(int64_t bytes);

  // Everything is written and the disk has said so (fsync). Nothing may be appended afterwards.
  Result<FileSummary> finish();

  int64_t bytes() const { return bytes_flushed_ + used_; }

 private:
  FileWriter() = default;
  Status flush();
  Error fail(std::string_view operation, int error_number);

  std::filesystem::path path_;
  FileDescriptor file_;
  PageBuffer own_buffer_;
  std::span<std::byte> buffer_;
  int64_t used_ = 0;
  int64_t bytes_flushed_ = 0;
  Checksum checksum_;
  std::optional<Error> error_;
};

// Writes beside the final name and takes it by one rename. Until publish() a file that was there
// stays as it was; nobody ever sees half a file.
class SafeWriter {
 public:
  static Result<SafeWriter> create(const std::filesystem::path& path,
                                   std::span<std::byte> buffer = {});

  Status append(std::span<const std::byte> bytes) { return writer_.append(bytes); }
  Status append(std::string_view text) { return writer_.append(text); }
  Result<std::span<std::byte>> room() { return writer_.room(); }
  void advance(int64_t bytes) { writer_.advance(bytes); }
  int64_t bytes() const { return writer_.bytes(); }

  // On disk under the final name, the folder's entry too.
  Result<FileSummary> publish();

 private:
  SafeWriter(std::filesystem::path path, std::filesystem::path temporary, FileWriter writer);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileWriter writer_;
};

// A small file in one call, by SafeWriter.
Status write_file(const std::filesystem::path& path, std::string_view text);

// Makes the entries of a folder durable.
Status sync_folder(const std::filesystem::path& folder);

}  // namespace cadre
