// ByteStream: a file's text from its first byte to its last, with .gz and .zst looked through.
// LineReader: the same, by lines.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cadre {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads at least one byte and at most buffer.size(); 0 at the end. After an error the stream is
  // of no more use.
  virtual Result<size_t> read(std::span<char> buffer) = 0;
};

// By the name's suffix: .gz (also of several members), .zst (several frames), anything else as it
// is. What is corrupt or cut off is refused with the place in the compressed file.
Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::filesystem::path& path);

// The suffix without .gz or .zst: what the text inside is ("a.jsonl.zst": ".jsonl").
std::filesystem::path without_compression(const std::filesystem::path& path);

class LineReader {
 public:
  struct Options {
    int64_t line_bytes_max = int64_t{1} << 30;  // a longer line is refused, by its number
  };
  // `source` is named in errors.
  LineReader(std::unique_ptr<ByteStream> stream, std::string source, const Options& options);
  LineReader(std::unique_ptr<ByteStream> stream, std::string source)
      : LineReader(std::move(stream), std::move(source), Options{}) {}

  // The next line without its '\n' (a '\r' before it stays), valid until the next call; nullopt at
  // the end. A last line needs no '\n'.
  Result<std::optional<std::string_view>> next();

  int64_t line_number() const { return line_number_; }  // of the line returned last; from 1

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string source_;
  Options options_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what was read and not returned
  size_t end_ = 0;
  int64_t line_number_ = 0;
  bool at_end_ = false;
};

}  // namespace cadre
