// Safetensors files (github.com/huggingface/safetensors, README: "Format"):
//
//     8 bytes   n, little-endian
//     n bytes   JSON: {"NAME": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..}
//     the rest  the tensors' elements, row-major, little-endian; offsets count from here
//
// The reader trusts nothing: whatever is wrong is refused with the file and the tensor in the
// message, before anything is allocated that the file's own size does not justify.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/saved_tensor.h"
#include "checkpoint/stored_type.h"
#include "storage/checksum.h"
#include "storage/file.h"

namespace cadre {

inline constexpr int64_t kHeaderBytesMax = 100'000'000;  // as the reference implementation

struct StoredTensor {
  std::string name = {};
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape = {};  // any number of dimensions
  int64_t offset = 0;               // in the file
  int64_t bytes = 0;

  bool operator==(const StoredTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset
  std::map<std::string, std::string> metadata;
};

// `start` is the file's beginning: its first eight bytes at least, and as much of the header as the
// file has. `source` is named in errors.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view start, int64_t file_bytes,
                                                   std::string_view source);

// May be read from several threads.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const StoredTensor* find(std::string_view name) const;  // nullptr: not in this file

  // Copies box `box` of `tensor` into `destination` (of shape box.size, any strides), converted to
  // its dtype. Reads through `buffer` (64 KiB or more), or without it where nothing is to be
  // converted or scattered. The tensor's type must be one that has a DType.
  Status read(const StoredTensor& tensor, const Box& box, const Tensor& destination,
              std::span<std::byte> buffer) const;

 private:
  SafetensorsFile(ReadableFile file, SafetensorsHeader header);

  ReadableFile file_;
  SafetensorsHeader header_;
  std::vector<size_t> by_name_;  // indices of header_.tensors
};

// One file to be written: which tensors, in which order, under which names.
struct SafetensorsEntry {
  std::string name;  // in the file: the tensor's own, or piece_name()
  const SavedTensor* tensor = nullptr;
};

// Writes `path` at once, element by element converted in `buffer`, so that no second copy of a
// tensor is ever in memory. Durable when it returns. The header carries {"format": "pt"}, which
// transformers asks for, and is padded so that elements start at a multiple of 64 bytes.
Result<FileSummary> write_safetensors(const std::filesystem::path& path,
                                      std::span<const SafetensorsEntry> entries,
                                      std::span<std::byte> buffer);

// Cuts `tensors`, in their order, into files of at most `bytes_max` bytes of elements each; a
// larger tensor has one for itself.
std::vector<std::vector<SafetensorsEntry>> plan_shards(std::span<const SavedTensor> tensors,
                                                       int64_t bytes_max);

// The name of a piece inside a file: the tensor's own if it is whole, else "NAME[2:4,0:8]" with its
// index ranges, so that a reader that knows nothing of pieces cannot take it for the tensor.
std::string piece_name(const SavedTensor& tensor);

}  // namespace cadre
