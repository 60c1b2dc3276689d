#include "checkpoint/reader.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "checkpoint/convert.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_index.h"
#include "checkpoint/shown.h"
#include "storage/page_buffer.h"
#include "storage/safe_writer.h"

namespace cadre {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

std::vector<int64_t> sizes_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.rank(); ++d) {
    sizes.push_back(shape[d]);
  }
  return sizes;
}

// Only tensors of up to four dimensions can be read; a larger one has no box.
Box whole_box(const std::vector<int64_t>& sizes) {
  Shape shape;
  for (const int64_t size : sizes) {
    if (shape.rank() == 4) {
      return {};
    }
    shape = shape.with_inserted(shape.rank(), size);
  }
  return all_of(shape);
}

std::string shape_text(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) {
    text += concat(text.size() == 1 ? "" : ", ", size);
  }
  return text + "]";
}

// The elements that both boxes have; of size 0 if there are none.
Box common(const Box& left, const Box& right) {
  Box box = left;
  for (int d = 0; d < left.first.rank(); ++d) {
    const int64_t end = std::min(left.first[d] + left.size[d], right.first[d] + right.size[d]);
    box.first[d] = std::max(left.first[d], right.first[d]);
    box.size[d] = std::max<int64_t>(0, end - box.first[d]);
  }
  return box;
}

// `box` as seen from the first element of `frame`.
Box within(Box box, const Box& frame) {
  for (int d = 0; d < box.first.rank(); ++d) {
    box.first[d] -= frame.first[d];
  }
  return box;
}

// "2 tensors are missing: a, b" with the first ten names.
void add_problem(std::string& message, std::string_view what, std::vector<std::string> details) {
  constexpr size_t kNamed = 10;
  if (details.empty()) {
    return;
  }
  const size_t count = details.size();
  message +=
      concat(message.empty() ? "" : "; ", count, count == 1 ? " tensor " : " tensors ", what, ": ");
  for (size_t i = 0; i < std::min(count, kNamed); ++i) {
    message += (i == 0 ? "" : ", ") + details[i];
  }
  message += count > kNamed ? concat(" and ", count - kNamed, " more") : "";
}

// Collects files and tensors while a folder is opened.
struct Catalogue {
  std::filesystem::path folder;
  std::vector<SafetensorsFile> files;
  std::map<std::string, size_t> index_of;  // of files, by name
  std::vector<AvailableTensor> tensors;

  Result<size_t> open(const std::string& name) {
    const auto [at, is_new] = index_of.emplace(name, files.size());
    if (is_new) {
      Result<SafetensorsFile> file = SafetensorsFile::open(folder / name);
      if (!file) {
        return file.error();
      }
      files.push_back(std::move(*file));
    }
    return at->second;
  }

  void add_whole(size_t file, const StoredTensor& stored) {
    const auto entry = static_cast<size_t>(&stored - files[file].tensors().data());
    const StoredPiece piece{.file = file, .entry = entry, .box = whole_box(stored.shape)};
    tensors.push_back(
        {.name = stored.name, .type = stored.type, .shape = stored.shape, .pieces = {piece}});
  }
};

Status add_single_file(Catalogue& catalogue) {
  const Result<size_t> file = catalogue.open(std::string(kSingleFile));
  if (!file) {
    return file.error();
  }
  for (const StoredTensor& stored : catalogue.files[*file].tensors()) {
    catalogue.add_whole(*file, stored);
  }
  return {};
}

Status add_indexed_files(Catalogue& catalogue) {
  const std::filesystem::path path = catalogue.folder / kIndex;
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  const Result<ModelIndex> index = parse_model_index(*text, path.string());
  if (!index) {
    return index.error();
  }
  for (const auto& [name, file_name] : index->file_of) {
    const Result<size_t> file = catalogue.open(file_name);
    if (!file) {
      return input_error(shown(path.string()), " says that tensor ", shown(name), " is in ",
                         shown(file_name), ": ", file.error().message);
    }
    const StoredTensor* const stored = catalogue.files[*file].find(name);
    if (stored == nullptr) {
      return input_error(shown(path.string()), " says that tensor ", shown(name), " is in ",
                         shown(file_name), ", which does not have it");
    }
    catalogue.add_whole(*file, *stored);
  }
  // What the index forgets is there all the same: who loads decides whether it is left over.
  for (size_t file = 0; file < catalogue.files.size(); ++file) {
    for (const StoredTensor& stored : catalogue.files[file].tensors()) {
      if (!index->file_of.contains(stored.name)) {
        catalogue.add_whole(file, stored);
      }
    }
  }
  return {};
}

Status add_manifest(Catalogue& catalogue, const std::vector<ManifestTensor>& tensors) {
  for (const ManifestTensor& tensor : tensors) {
    AvailableTensor available{
        .name = tensor.name, .type = tensor.type, .shape = sizes_of(tensor.shape), .pieces = {}};
    for (const ManifestPiece& piece : tensor.pieces) {
      const Result<size_t> file = catalogue.open(piece.file);
      if (!file) {
        return file.error();
      }
      const SafetensorsFile& opened = catalogue.files[*file];
      const StoredTensor* const stored = opened.find(piece.entry);
      if (stored == nullptr || stored->type != tensor.type ||
          stored->shape != sizes_of(piece.box.size)) {
        return input_error(shown(opened.path().string()), ": ",
                           stored == nullptr ? "it lacks " : "of another type or shape is ",
                           shown(piece.entry), ", which ", kManifestName, " names as a ",
                           name_of(tensor.type), " of shape ", piece.box.size);
      }
      const auto entry = static_cast<size_t>(stored - opened.tensors().data());
      available.pieces.push_back({.file = *file, .entry = entry, .box = piece.box});
    }
    catalogue.tensors.push_back(std::move(available));
  }
  return {};
}

Status add_model(Catalogue& catalogue) {
  if (has_manifest(catalogue.folder)) {
    const Result<Manifest> manifest = read_manifest(catalogue.folder);
    if (!manifest) {
      return manifest.error();
    }
    return add_manifest(catalogue, manifest->model);
  }
  if (is_there(catalogue.folder / kSingleFile)) {
    return add_single_file(catalogue);
  }
  if (is_there(catalogue.folder / kIndex)) {
    return add_indexed_files(catalogue);
  }
  const bool pickled = is_there(catalogue.folder / "pytorch_model.bin") ||
                       is_there(catalogue.folder / "pytorch_model.bin.index.json");
  return input_error(
      shown(catalogue.folder.string()), " is no model folder: it has neither ", kSingleFile,
      " nor ", kIndex,
      pickled ? "; convert its pytorch_model.bin with transformers' save_pretrained" : "");
}

Result<Json> read_json(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  return parse_json(*text, path.string());
}

}  // namespace

Result<CheckpointReader> CheckpointReader::open_model(const std::filesystem::path& folder) {
  Catalogue catalogue{.folder = folder, .files = {}, .index_of = {}, .tensors = {}};
  if (Status status = add_model(catalogue); !status) {
    return status.error();
  }
  return CheckpointReader(folder, std::move(catalogue.files), std::move(catalogue.tensors));
}

Result<CheckpointReader> CheckpointReader::open_optimizer(const std::filesystem::path& checkpoint) {
  const Result<Manifest> manifest = read_manifest(checkpoint);
  if (!manifest) {
    return manifest.error();
  }
  if (manifest->optimizer.empty()) {
    return input_error(
        "the checkpoint ", shown(checkpoint.string()),
        " was saved without the optimizer's state; training cannot continue from it, "
        "but can start anew from its weights");
  }
  Catalogue catalogue{.folder = checkpoint, .files = {}, .index_of = {}, .tensors = {}};
  if (Status status = add_manifest(catalogue, manifest->optimizer); !status) {
    return status.error();
  }
  return CheckpointReader(checkpoint, std::move(catalogue.files), std::move(catalogue.tensors));
}

CheckpointReader::CheckpointReader(std::filesystem::path folder, std::vector<SafetensorsFile> files,
                                   std::vector<AvailableTensor> tensors)
    : folder_(std::move(folder)), files_(std::move(files)), tensors_(std::move(tensors)) {
  std::ranges::sort(tensors_, {}, &AvailableTensor::name);
}

const AvailableTensor* CheckpointReader::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &AvailableTensor::name);
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

Status CheckpointReader::check(std::span<const WantedTensor> wanted,
                               const LoadOptions& options) const {
  std::vector<std::string> missing, left_over, misshapen, unreadable;
  std::vector<bool> is_wanted(tensors_.size(), false);
  for (const WantedTensor& want : wanted) {
    CADRE_CHECK_EQ(want.destination.shape, want.box.size);
    const AvailableTensor* const found = find(want.name);
    if (found == nullptr) {
      missing.push_back(shown(want.name));
      continue;
    }
    is_wanted[static_cast<size_t>(found - tensors_.data())] = true;
    const std::optional<DType> dtype = dtype_of(found->type);
    if (found->shape != sizes_of(want.whole)) {
      misshapen.push_back(concat(shown(want.name), " ", shape_text(found->shape), " instead of ",
                                 shape_text(sizes_of(want.whole))));
    } else if (!dtype || !is_convertible(*dtype, want.destination.dtype)) {
      unreadable.push_back(concat(shown(want.name), " ", name_of(found->type)));
    }
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto matches = [&](const std::string& glob) {
      return matches_glob(glob, tensors_[i].name);
    };
    if (!is_wanted[i] && std::ranges::none_of(options.may_be_left_over, matches)) {
      left_over.push_back(shown(tensors_[i].name));
    }
  }
  std::string message;
  add_problem(message, "missing", std::move(missing));
  add_problem(message, "left over, which the model has no place for", std::move(left_over));
  add_problem(message, "of another shape than the model's", std::move(misshapen));
  add_problem(message, "of a type that is not F32, BF16 or F16", std::move(unreadable));
  if (!message.empty()) {
    return input_error("cannot load ", shown(folder_.string()), ": ", message);
  }
  return {};
}

Status CheckpointReader::load(std::span<const WantedTensor> wanted,
                              const LoadOptions& options) const {
  if (Status status = check(wanted, options); !status) {
    return status;
  }
  struct Part {
    size_t file = 0;
    size_t entry = 0;
    Box box;  // within the piece
    Tensor destination;
  };
  std::vector<Part> parts;
  for (const WantedTensor& want : wanted) {
    for (const StoredPiece& piece : find(want.name)->pieces) {
      const Box box = common(piece.box, want.box);
      if (box.size.elements() > 0) {
        parts.push_back({.file = piece.file,
                         .entry = piece.entry,
                         .box = within(box, piece.box),
                         .destination = want.destination.slice(within(box, want.box))});
      }
    }
  }
  // Front to back in every file: what disks do best.
  std::ranges::sort(parts, {}, [this](const Part& part) {
    return std::tuple(part.file, files_[part.file].tensors()[part.entry].offset);
  });
  const PageBuffer buffer(kWriteBufferBytes);
  for (const Part& part : parts) {
    const SafetensorsFile& file = files_[part.file];
    if (Status status =
            file.read(file.tensors()[part.entry], part.box, part.destination, buffer.bytes());
        !status) {
      return status;
    }
  }
  return {};
}

Result<Json> read_model_config(const std::filesystem::path& folder) {
  return read_json(folder / "config.json");
}

Result<Json> read_trainer_state(const std::filesystem::path& checkpoint) {
  return read_json(checkpoint / "trainer_state.json");
}

}  // namespace cadre
