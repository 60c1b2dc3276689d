// TensorBoardFile: scalars in the format of TensorBoard's event files.
//
// Records are those of TensorFlow's record format (tensorflow/core/lib/io/record_writer.h):
//     8 bytes length, 4 bytes masked CRC-32C of the length, the data, 4 bytes masked CRC-32C of it
// all little-endian. The data are Event messages of protocol buffers, written here by hand:
//     1: wall_time (double)  2: step (varint)  3: file_version (string)
//     5: summary { 1: value { 1: tag (string)  2: simple_value (float) } }

#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cadre {

struct Scalar {
  std::string_view tag;
  double value = 0.0;
};

class TensorBoardFile {
 public:
  // Creates a new events.out.tfevents.SECONDS.cadre in `folder`.
  static Result<TensorBoardFile> create(const std::filesystem::path& folder);

  Status append(int64_t step, std::span<const Scalar> scalars);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TensorBoardFile(std::filesystem::path path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}
  Status write_record(const std::string& data);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// CRC-32C (Castagnoli), as RFC 3720, appendix B.4 has it.
uint32_t crc32c(std::string_view bytes);

}  // namespace cadre
