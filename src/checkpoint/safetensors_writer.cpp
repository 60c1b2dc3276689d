#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shown.h"
#include "storage/safe_writer.h"

namespace cadre {
namespace {

constexpr int64_t kDataAlignment = 64;
constexpr std::string_view kHeaderStart = R"({"__metadata__":{"format":"pt"})";

int64_t stored_bytes(const SavedTensor& tensor) {
  return tensor.box.size.elements() * bytes_of(tensor.dtype);
}

// `,"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}`
std::string header_entry(const SafetensorsEntry& entry, int64_t begin) {
  const SavedTensor& tensor = *entry.tensor;
  std::string shape;
  for (int d = 0; d < tensor.box.size.rank(); ++d) {
    shape += concat(d == 0 ? "" : ",", tensor.box.size[d]);
  }
  return concat(",", Json(entry.name).dump(), R"(:{"dtype":")",
                name_of(stored_type_of(tensor.dtype)), R"(","shape":[)", shape,
                R"(],"data_offsets":[)", begin, ",", begin + stored_bytes(tensor), "]}");
}

// Calls visit(text) with one part of the header after the other. Twice: for its length, and to
// write it; so it is never in memory as a whole.
template <typename Visit>
void for_each_header_part(std::span<const SafetensorsEntry> entries, const Visit& visit) {
  visit(kHeaderStart);
  int64_t begin = 0;
  for (const SafetensorsEntry& entry : entries) {
    visit(header_entry(entry, begin));
    begin += stored_bytes(*entry.tensor);
  }
  visit("}");
}

Status write_header(FileWriter& writer, std::span<const SafetensorsEntry> entries) {
  int64_t length = 0;
  for_each_header_part(entries, [&](std::string_view part) { length += std::ssize(part); });
  const int64_t end = (8 + length + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  const auto padded = static_cast<uint64_t>(end - 8);
  Status status = writer.append(std::as_bytes(std::span(&padded, 1)));
  for_each_header_part(entries, [&](std::string_view part) {
    if (status) {
      status = writer.append(part);
    }
  });
  if (status) {
    status = writer.append(std::string(static_cast<size_t>(end - 8 - length), ' '));
  }
  return status;
}

Status write_elements(FileWriter& writer, const SavedTensor& tensor) {
  const int64_t element_bytes = bytes_of(tensor.dtype);
  PairedRuns runs(tensor.box.size, tensor.box.size.packed_strides(), tensor.data.strides);
  for (PairedRuns::Run run; runs.next(run);) {
    const std::byte* const in = tensor.data.data + run.right * bytes_of(tensor.data.dtype);
    for (int64_t done = 0; done < run.count;) {
      const Result<std::span<std::byte>> room = writer.room();
      if (!room) {
        return room.error();
      }
      // The buffer is whole pages and larger types come first: an element never straddles its end.
      CADRE_CHECK(std::ssize(*room) >= element_bytes, room->size(), " bytes of room");
      const int64_t count = std::min(std::ssize(*room) / element_bytes, run.count - done);
      convert_run({room->data(), tensor.dtype, 1},
                  {in + done * run.right_stride * bytes_of(tensor.data.dtype), tensor.data.dtype,
                   run.right_stride},
                  count);
      writer.advance(count * element_bytes);
      done += count;
    }
  }
  return {};
}

void check_entries(std::span<const SafetensorsEntry> entries) {
  std::set<std::string_view> names;
  int64_t element_bytes = 8;
  for (const SafetensorsEntry& entry : entries) {
    const SavedTensor& tensor = *entry.tensor;
    CADRE_CHECK(names.insert(entry.name).second, shown(entry.name), " is to be saved twice");
    CADRE_CHECK(tensor.data.shape == tensor.box.size, shown(entry.name), ": ", tensor.data.shape,
                " for a box of ", tensor.box.size);
    CADRE_CHECK(is_convertible(tensor.data.dtype, tensor.dtype), shown(entry.name));
    CADRE_CHECK(bytes_of(tensor.dtype) <= element_bytes, shown(entry.name),
                " has a larger type than one before it");
    element_bytes = bytes_of(tensor.dtype);
  }
}

}  // namespace

Result<FileSummary> write_safetensors(const std::filesystem::path& path,
                                      std::span<const SafetensorsEntry> entries,
                                      std::span<std::byte> buffer) {
  CADRE_CHECK(!buffer.empty() && buffer.size() % 8 == 0, buffer.size());
  check_entries(entries);
  Result<FileWriter> writer = FileWriter::create(path, buffer);
  if (!writer) {
    return writer.error();
  }
  Status status = write_header(*writer, entries);
  for (const SafetensorsEntry& entry : entries) {
    if (status) {
      status = write_elements(*writer, *entry.tensor);
    }
  }
  if (!status) {
    return status.error();
  }
  return writer->finish();
}

std::vector<std::vector<SafetensorsEntry>> plan_shards(std::span<const SavedTensor> tensors,
                                                       int64_t bytes_max) {
  std::vector<std::vector<SafetensorsEntry>> shards;
  int64_t bytes = 0;
  for (const SavedTensor& tensor : tensors) {
    if (shards.empty() || (bytes + stored_bytes(tensor) > bytes_max && !shards.back().empty())) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += stored_bytes(tensor);
    shards.back().push_back({.name = piece_name(tensor), .tensor = &tensor});
  }
  // Larger types first, so that every element is aligned in the file.
  for (std::vector<SafetensorsEntry>& shard : shards) {
    std::ranges::stable_sort(shard, std::greater(), [](const SafetensorsEntry& entry) {
      return bytes_of(entry.tensor->dtype);
    });
  }
  return shards;
}

std::string piece_name(const SavedTensor& tensor) {
  if (tensor.box == all_of(tensor.whole)) {
    return tensor.name;
  }
  std::string ranges;
  for (int d = 0; d < tensor.box.first.rank(); ++d) {
    ranges += concat(d == 0 ? "" : ",", tensor.box.first[d], ":",
                     tensor.box.first[d] + tensor.box.size[d]);
  }
  return concat(tensor.name, "[", ranges, "]");
}

}  // namespace cadre
