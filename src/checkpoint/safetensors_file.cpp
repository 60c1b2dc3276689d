#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shown.h"

namespace cadre {
namespace {

// Runs shorter than this are fetched together with what lies between them.
constexpr int64_t kReadAheadBelow = 64 << 10;

// The part of a file that was read last.
class Window {
 public:
  // `file` and `buffer` outlive the window. Nothing at or behind `limit` is read.
  Window(const ReadableFile& file, std::span<std::byte> buffer, int64_t limit)
      : file_(file), buffer_(buffer), limit_(limit) {}

  int64_t capacity() const { return std::ssize(buffer_); }

  // `bytes` bytes (at most capacity()) from `offset`.
  Result<const std::byte*> fetch(int64_t offset, int64_t bytes) {
    if (offset < begin_ || offset + bytes > end_) {
      const int64_t ahead = bytes < kReadAheadBelow ? capacity() : bytes;
      const int64_t count = std::min(ahead, limit_ - offset);
      if (Status status = file_.read_at(offset, buffer_.first(static_cast<size_t>(count)));
          !status) {
        return status.error();
      }
      begin_ = offset;
      end_ = offset + count;
    }
    return buffer_.data() + (offset - begin_);
  }

 private:
  const ReadableFile& file_;
  std::span<std::byte> buffer_;
  int64_t limit_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

Shape to_shape(const std::vector<int64_t>& sizes) {
  Shape shape;
  for (const int64_t size : sizes) {
    shape = shape.with_inserted(shape.rank(), size);
  }
  return shape;
}

// Offset of the element at `index` of an array with these strides.
int64_t offset_of(const Shape& index, const Shape& strides) {
  int64_t offset = 0;
  for (int d = 0; d < index.rank(); ++d) {
    offset += index[d] * strides[d];
  }
  return offset;
}

// Offset behind the last element of the box.
int64_t end_of(const Box& box, const Shape& strides) {
  int64_t offset = offset_of(box.first, strides) + 1;
  for (int d = 0; d < box.size.rank(); ++d) {
    offset += (box.size[d] - 1) * strides[d];
  }
  return offset;
}

void check_inside(const Box& box, const Shape& shape) {
  CADRE_CHECK(box.first.rank() == shape.rank() && box.size.rank() == shape.rank());
  for (int d = 0; d < shape.rank(); ++d) {
    CADRE_CHECK(0 <= box.first[d] && 0 <= box.size[d] && box.first[d] + box.size[d] <= shape[d],
                box.first, " + ", box.size, " of ", shape);
  }
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  Result<ReadableFile> file = ReadableFile::open(path);
  if (!file) {
    return file.error();
  }
  // The length comes first and is believed only as far as the file is long.
  std::array<std::byte, 8> length_bytes = {};
  uint64_t length = 0;
  if (file->bytes() >= 8) {
    if (Status status = file->read_at(0, length_bytes); !status) {
      return status.error();
    }
    std::memcpy(&length, length_bytes.data(), sizeof(length));
  }
  const auto limit = static_cast<uint64_t>(std::min(file->bytes(), kHeaderBytesMax + 8));
  std::string start(static_cast<size_t>(length <= limit ? std::min(length + 8, limit) : 8), '\0');
  start.resize(std::min(start.size(), static_cast<size_t>(file->bytes())));
  if (Status status = file->read_at(0, std::as_writable_bytes(std::span(start))); !status) {
    return status.error();
  }
  Result<SafetensorsHeader> header = parse_safetensors_header(start, file->bytes(), path.string());
  if (!header) {
    return header.error();
  }
  return SafetensorsFile(std::move(*file), std::move(*header));
}

SafetensorsFile::SafetensorsFile(ReadableFile file, SafetensorsHeader header)
    : file_(std::move(file)), header_(std::move(header)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::ranges::sort(by_name_, {},
                    [this](size_t i) -> const std::string& { return tensors()[i].name; });
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto name_at = [this](size_t i) { return std::string_view(tensors()[i].name); };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_at);
  return found == by_name_.end() || name_at(*found) != name ? nullptr : &tensors()[*found];
}

Status SafetensorsFile::read(const StoredTensor& tensor, const Box& box, const Tensor& destination,
                             std::span<std::byte> buffer) const {
  const std::optional<DType> dtype = dtype_of(tensor.type);
  CADRE_CHECK(dtype.has_value() && is_convertible(*dtype, destination.dtype), shown(tensor.name),
              " of type ", name_of(tensor.type), " to ", name_of(destination.dtype));
  const Shape shape = to_shape(tensor.shape);
  check_inside(box, shape);
  CADRE_CHECK_EQ(destination.shape, box.size);
  if (box.size.elements() == 0) {
    return {};
  }
  const int64_t element_bytes = bytes_of(*dtype);
  const Shape strides = shape.packed_strides();
  const int64_t first = tensor.offset + offset_of(box.first, strides) * element_bytes;
  Window window(file_, buffer, tensor.offset + end_of(box, strides) * element_bytes);
  PairedRuns runs(box.size, strides, destination.strides);
  for (PairedRuns::Run run; runs.next(run);) {
    CADRE_CHECK_EQ(run.left_stride, 1);
    const int64_t offset = first + run.left * element_bytes;
    std::byte* const out = destination.data + run.right * bytes_of(destination.dtype);
    const bool as_it_is = *dtype == destination.dtype && run.right_stride == 1;
    if (as_it_is && run.count * element_bytes >= kReadAheadBelow) {
      const std::span<std::byte> bytes(out, static_cast<size_t>(run.count * element_bytes));
      if (Status status = file_.read_at(offset, bytes); !status) {
        return status;
      }
      continue;
    }
    const int64_t part_max = window.capacity() / element_bytes;
    CADRE_CHECK(part_max > 0, "a buffer of ", buffer.size(), " bytes");
    for (int64_t done = 0; done < run.count;) {
      const int64_t count = std::min(part_max, run.count - done);
      const Result<const std::byte*> in =
          window.fetch(offset + done * element_bytes, count * element_bytes);
      if (!in) {
        return in.error();
      }
      convert_run({out + done * run.right_stride * bytes_of(destination.dtype), destination.dtype,
                   run.right_stride},
                  {*in, *dtype, 1}, count);
      done += count;
    }
  }
  return {};
}

}  // namespace cadre
