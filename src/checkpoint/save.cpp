#include "checkpoint/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shown.h"
#include "storage/page_buffer.h"
#include "storage/publish.h"
#include "storage/safe_writer.h"

namespace cadre {
namespace {

// Writes the files of one folder and remembers what it wrote.
class FolderWriter {
 public:
  explicit FolderWriter(std::filesystem::path folder)
      : folder_(std::move(folder)), buffer_(kWriteBufferBytes) {}

  const std::vector<ManifestFile>& files() const { return files_; }

  Status write_text(const std::string& name, std::string_view text) {
    Result<FileWriter> writer = FileWriter::create(folder_ / name, buffer_.bytes());
    if (!writer) {
      return writer.error();
    }
    if (Status status = writer->append(text); !status) {
      return status;
    }
    return remember(name, writer->finish());
  }

  Status copy(const CopiedFile& file) {
    if (file.from.empty()) {
      return write_text(file.name, file.text);
    }
    const Result<ReadableFile> source = ReadableFile::open(file.from);
    if (!source) {
      return source.error();
    }
    Result<FileWriter> writer = FileWriter::create(folder_ / file.name, buffer_.bytes());
    if (!writer) {
      return writer.error();
    }
    while (writer->bytes() < source->bytes()) {
      const Result<std::span<std::byte>> room = writer->room();
      if (!room) {
        return room.error();
      }
      const int64_t count = std::min(std::ssize(*room), source->bytes() - writer->bytes());
      if (Status status = source->read_at(writer->bytes(), room->first(static_cast<size_t>(count)));
          !status) {
        return status;
      }
      writer->advance(count);
    }
    return remember(file.name, writer->finish());
  }

  // Writes shards PREFIX-00001-of-0000N.safetensors and says where every tensor is.
  Result<std::vector<ManifestTensor>> write_tensors(const std::vector<SavedTensor>& tensors,
                                                    std::string_view prefix, int64_t bytes_max) {
    const std::vector<std::vector<SafetensorsEntry>> shards = plan_shards(tensors, bytes_max);
    std::map<std::string, ManifestPiece, std::less<>> piece_of;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(prefix, i, shards.size());
      if (Status status =
              remember(name, write_safetensors(folder_ / name, shards[i], buffer_.bytes()));
          !status) {
        return status.error();
      }
      for (const SafetensorsEntry& entry : shards[i]) {
        const ManifestPiece piece{.file = name, .entry = entry.name, .box = entry.tensor->box};
        CADRE_CHECK(piece_of.emplace(entry.name, piece).second, shown(entry.name),
                    " is to be saved twice");
      }
    }
    return tensors_of(tensors, piece_of);
  }

  // What is on disk now must be what was written: memory, cables and disks have failed before.
  Status read_back() const {
    for (const ManifestFile& file : files_) {
      const Result<FileSummary> found = summarize_file(folder_ / file.name, buffer_.bytes());
      if (!found) {
        return found.error();
      }
      if (found->bytes != file.bytes || found->checksum != file.checksum) {
        return failure("\"", file.name, "\" reads back as ", found->bytes, " bytes with checksum ",
                       checksum_text(found->checksum), ", ", file.bytes, " bytes with checksum ",
                       checksum_text(file.checksum), " were written; do not trust this disk");
      }
    }
    return {};
  }

 private:
  static std::string shard_name(std::string_view prefix, size_t index, size_t count) {
    // One file of weights has the plain name that every reader looks for first.
    return count == 1 && prefix == "model"
               ? "model.safetensors"
               : fmt::format("{}-{:05}-of-{:05}.safetensors", prefix, index + 1, count);
  }

  static std::vector<ManifestTensor> tensors_of(
      const std::vector<SavedTensor>& tensors,
      const std::map<std::string, ManifestPiece, std::less<>>& piece_of) {
    std::vector<ManifestTensor> result;
    std::map<std::string_view, size_t> index_of;
    for (const SavedTensor& tensor : tensors) {
      const auto [at, is_new] = index_of.emplace(tensor.name, result.size());
      if (is_new) {
        result.push_back({.name = tensor.name,
                          .type = stored_type_of(tensor.dtype),
                          .shape = tensor.whole,
                          .pieces = {}});
      }
      ManifestTensor& entry = result[at->second];
      CADRE_CHECK(entry.shape == tensor.whole && entry.type == stored_type_of(tensor.dtype),
                  shown(tensor.name), " has pieces of two shapes or dtypes");
      entry.pieces.push_back(piece_of.find(piece_name(tensor))->second);
    }
    return result;
  }

  Status remember(const std::string& name, const Result<FileSummary>& summary) {
    if (!summary) {
      return summary.error();
    }
    files_.push_back({.name = name, .bytes = summary->bytes, .checksum = summary->checksum});
    return {};
  }

  std::filesystem::path folder_;
  PageBuffer buffer_;
  std::vector<ManifestFile> files_;
};

void check_contents(const CheckpointContents& contents) {
  std::map<const std::byte*, std::string_view> by_address;
  for (const SavedTensor& tensor : contents.model) {
    if (tensor.data.shape.elements() > 0) {
      const auto [other, is_new] = by_address.emplace(tensor.data.data, tensor.name);
      CADRE_CHECK(is_new, "tied tensors are saved once, under one name: ", shown(tensor.name),
                  " is ", shown(other->second));
    }
  }
  std::set<std::string_view> names = {"config.json", "trainer_state.json", kManifestName};
  for (const CopiedFile& file : contents.files) {
    CADRE_CHECK(is_plain_file_name(file.name) && names.insert(file.name).second &&
                    !file.name.ends_with(".safetensors"),
                shown(file.name), " is taken");
  }
}

// Every element must be in one piece: this is one process, which saves whole tensors or all pieces.
void check_tensors(const std::vector<ManifestTensor>& tensors) {
  for (const ManifestTensor& tensor : tensors) {
    std::vector<Box> boxes(tensor.pieces.size());
    std::ranges::transform(tensor.pieces, boxes.begin(), &ManifestPiece::box);
    const std::string problem = tiling_problem(tensor.shape, boxes);
    CADRE_CHECK(problem.empty(), shown(tensor.name), " ", problem);
  }
}

// model.safetensors.index.json, as transformers writes it.
std::string index_text(const std::vector<ManifestTensor>& tensors) {
  int64_t bytes = 0;
  std::string map;
  for (const ManifestTensor& tensor : tensors) {
    bytes += tensor.shape.elements() * bytes_of(tensor.type);
    for (const ManifestPiece& piece : tensor.pieces) {
      map += concat(map.empty() ? "" : ",", "\n    ", Json(piece.entry).dump(), ": ",
                    Json(piece.file).dump());
    }
  }
  return concat("{\n  \"metadata\": {\n    \"total_size\": ", bytes, "\n  },\n  \"weight_map\": {",
                map, "\n  }\n}\n");
}

// The files that a model folder has, with or without a manifest.
Result<std::vector<ManifestTensor>> write_model(FolderWriter& writer,
                                                const CheckpointContents& contents,
                                                const SaveOptions& options) {
  check_contents(contents);
  if (Status status = writer.write_text("config.json", contents.config.dump(2) + "\n"); !status) {
    return status.error();
  }
  for (const CopiedFile& file : contents.files) {
    if (Status status = writer.copy(file); !status) {
      return status.error();
    }
  }
  Result<std::vector<ManifestTensor>> model =
      writer.write_tensors(contents.model, "model", options.shard_bytes_max);
  if (!model) {
    return model.error();
  }
  check_tensors(*model);
  const bool one_file = std::ranges::any_of(
      writer.files(), [](const ManifestFile& file) { return file.name == "model.safetensors"; });
  if (!one_file) {
    if (Status status = writer.write_text("model.safetensors.index.json", index_text(*model));
        !status) {
      return status.error();
    }
  }
  return model;
}

Result<int64_t> write_checkpoint(const std::filesystem::path& checkpoint, int64_t step,
                                 const CheckpointContents& contents, const SaveOptions& options) {
  Result<FolderPublisher> publisher = FolderPublisher::begin(checkpoint);
  if (!publisher) {
    return publisher.error();
  }
  FolderWriter writer(publisher->folder());
  Result<std::vector<ManifestTensor>> model = write_model(writer, contents, options);
  if (!model) {
    return model.error();
  }
  Result<std::vector<ManifestTensor>> optimizer =
      contents.optimizer.empty()
          ? std::vector<ManifestTensor>()
          : writer.write_tensors(contents.optimizer, "optimizer", options.shard_bytes_max);
  if (!optimizer) {
    return optimizer.error();
  }
  check_tensors(*optimizer);
  Status status;
  if (!contents.trainer_state.is_null()) {
    status = writer.write_text("trainer_state.json", contents.trainer_state.dump(2) + "\n");
  }
  if (status && options.read_back) {
    status = writer.read_back();
  }
  const Manifest manifest{.step = step,
                          .files = writer.files(),
                          .model = std::move(*model),
                          .optimizer = std::move(*optimizer)};
  if (status) {
    status = writer.write_text(std::string(kManifestName), format_manifest(manifest));
  }
  if (status) {
    status = publisher->publish();
  }
  if (!status) {
    return status.error();
  }
  return manifest.bytes();
}

// What a run falls back on, for the message of a save that failed.
std::string what_stays(const std::filesystem::path& checkpoints) {
  const Result<std::optional<CheckpointInfo>> newest = newest_complete(
      checkpoints, [](const std::string&) {}, Scrutiny::kSizes);
  if (!newest || !*newest) {
    return "there is no complete checkpoint before it";
  }
  return concat("the last complete checkpoint, \"", (**newest).path.string(), "\", stays");
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  CADRE_CHECK(step >= 0, step);
  return fmt::format("step-{:08}", step);
}

Result<SavedCheckpoint> save_checkpoint(const std::filesystem::path& checkpoints, int64_t step,
                                        const CheckpointContents& contents,
                                        const SaveOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::filesystem::path path = checkpoints / checkpoint_name(step);
  const Result<int64_t> bytes = write_checkpoint(path, step, contents, options);
  if (!bytes) {
    return failure("cannot save the checkpoint of step ", step, ": ", bytes.error().message, "; ",
                   what_stays(checkpoints));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return SavedCheckpoint{.path = path, .bytes = *bytes, .seconds = elapsed.count()};
}

Status save_model_folder(const std::filesystem::path& folder, const CheckpointContents& contents,
                         const SaveOptions& options) {
  if (std::error_code ignored; std::filesystem::exists(folder, ignored)) {
    return input_error("cannot save a model as \"", folder.string(),
                       "\": it exists; choose another folder");
  }
  Result<FolderPublisher> publisher = FolderPublisher::begin(folder);
  if (!publisher) {
    return publisher.error();
  }
  FolderWriter writer(publisher->folder());
  if (const Result<std::vector<ManifestTensor>> model = write_model(writer, contents, options);
      !model) {
    return model.error();
  }
  if (options.read_back) {
    if (Status status = writer.read_back(); !status) {
      return status;
    }
  }
  return publisher->publish();
}

}  // namespace cadre
