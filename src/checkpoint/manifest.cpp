#include "checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/json.h"
#include "checkpoint/shown.h"
#include "storage/checksum.h"
#include "storage/file.h"

namespace cadre {
namespace {

constexpr std::string_view kFormat = "cadre checkpoint";
constexpr std::string_view kOwnChecksum = "\"manifest_xxh3_64\": \"";
constexpr int64_t kManifestBytesMax = int64_t{1} << 30;
constexpr size_t kDigits = 16;

// Of the text with its own checksum's digits as zeros.
uint64_t own_checksum(std::string_view text, size_t digits_at) {
  constexpr std::string_view kZeros = "0000000000000000";
  static_assert(kZeros.size() == kDigits);
  Checksum checksum;
  const auto add = [&checksum](std::string_view part) {
    checksum.add(std::as_bytes(std::span(part)));
  };
  add(text.substr(0, digits_at));
  add(kZeros);
  add(text.substr(digits_at + kDigits));
  return checksum.value();
}

std::string quoted_json(std::string_view text) {
  return Json(text).dump();
}

std::string numbers(const Shape& shape) {
  std::string text = "[";
  for (int d = 0; d < shape.rank(); ++d) {
    text += concat(d == 0 ? "" : ", ", shape[d]);
  }
  return text + "]";
}

// What a reader can tell by itself is left out: the box of a whole tensor, and an equal name.
std::string format_piece(const ManifestTensor& tensor, const ManifestPiece& piece) {
  std::string text = concat("{\"file\": ", quoted_json(piece.file));
  if (piece.entry != tensor.name) {
    text += concat(", \"entry\": ", quoted_json(piece.entry));
  }
  if (piece.box != all_of(tensor.shape)) {
    text +=
        concat(", \"first\": ", numbers(piece.box.first), ", \"size\": ", numbers(piece.box.size));
  }
  return text + "}";
}

std::string format_tensors(const std::vector<ManifestTensor>& tensors) {
  std::string text;
  for (const ManifestTensor& tensor : tensors) {
    text += concat(text.empty() ? "" : ",", "\n    {\"name\": ", quoted_json(tensor.name),
                   ", \"dtype\": \"", name_of(tensor.type),
                   "\", \"shape\": ", numbers(tensor.shape), ", \"pieces\": [");
    for (size_t i = 0; i < tensor.pieces.size(); ++i) {
      text += (i == 0 ? "" : ", ") + format_piece(tensor, tensor.pieces[i]);
    }
    text += "]}";
  }
  return text;
}

// Reads the members of one object; remembers the first thing that is wrong.
class Fields {
 public:
  // `problem` outlives it; `where` says which object this is.
  Fields(const Json& object, std::string where, std::string& problem)
      : object_(object), where_(std::move(where)), problem_(problem) {
    if (!object.is_object()) {
      fail("is not an object");
    }
  }

  bool has(std::string_view key) const { return object_.is_object() && object_.contains(key); }

  std::string text(std::string_view key) {
    const Json* const value = member(key);
    if (value == nullptr || !value->is_string()) {
      fail(concat("needs a string \"", key, "\""));
      return "";
    }
    return value->get<std::string>();
  }

  int64_t count(std::string_view key) {
    const Json* const value = member(key);
    const int64_t number = value == nullptr ? -1 : count_in(*value);
    if (number < 0) {
      fail(concat("needs a whole number \"", key, "\" that is not negative"));
    }
    return std::max<int64_t>(number, 0);
  }

  Shape shape(std::string_view key) {
    Shape shape;
    const Json& values = array(key);
    if (values.size() > 4) {
      fail(concat("has more than four numbers in \"", key, "\""));
      return shape;
    }
    int64_t elements = 1;
    for (const Json& value : values) {
      const int64_t number = count_in(value);
      // So that a product of them, times the bytes of an element, is far from overflowing.
      constexpr int64_t kElementsMax = int64_t{1} << 56;
      if (number < 0 || number > kElementsMax / std::max<int64_t>(elements, 1)) {
        fail(concat("has no possible shape in \"", key, "\""));
        return {};
      }
      elements *= std::max<int64_t>(number, 1);
      shape = shape.with_inserted(shape.rank(), number);
    }
    return shape;
  }

  const Json& array(std::string_view key) {
    static const Json kEmpty = Json::array();
    const Json* const value = member(key);
    if (value == nullptr || !value->is_array()) {
      fail(concat("needs a list \"", key, "\""));
      return kEmpty;
    }
    return *value;
  }

  void fail(std::string_view what) {
    if (problem_.empty()) {
      problem_ = concat(where_, " ", what);
    }
  }

 private:
  const Json* member(std::string_view key) const {
    return has(key) ? &object_.at(std::string(key)) : nullptr;
  }

  static int64_t count_in(const Json& value) {
    const bool fits =
        value.is_number_unsigned() &&
        value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return fits ? value.get<int64_t>() : -1;
  }

  const Json& object_;
  std::string where_;
  std::string& problem_;
};

ManifestTensor parse_tensor(const Json& json, const std::set<std::string>& files,
                            std::string& problem) {
  Fields fields(json, "a tensor", problem);
  ManifestTensor tensor{.name = fields.text("name")};
  Fields named(json, concat("tensor ", shown(tensor.name)), problem);
  const std::string dtype = named.text("dtype");
  const std::optional<StoredType> type = stored_type_named(dtype);
  if (!type) {
    named.fail(concat("has the unknown dtype ", shown(dtype)));
  }
  tensor.type = type.value_or(StoredType::kF32);
  tensor.shape = named.shape("shape");
  std::vector<Box> boxes;
  for (const Json& part : named.array("pieces")) {
    Fields piece_fields(part, concat("a piece of tensor ", shown(tensor.name)), problem);
    ManifestPiece piece{
        .file = piece_fields.text("file"),
        .entry = piece_fields.has("entry") ? piece_fields.text("entry") : tensor.name,
        .box = all_of(tensor.shape)};
    if (piece_fields.has("first") || piece_fields.has("size")) {
      piece.box = {.first = piece_fields.shape("first"), .size = piece_fields.shape("size")};
    }
    if (!files.contains(piece.file)) {
      piece_fields.fail(concat("is in ", shown(piece.file), ", which is not among the files"));
    }
    boxes.push_back(piece.box);
    tensor.pieces.push_back(std::move(piece));
  }
  if (problem.empty()) {
    if (const std::string gap = tiling_problem(tensor.shape, boxes); !gap.empty()) {
      named.fail(gap);
    }
  }
  return tensor;
}

std::vector<ManifestTensor> parse_tensors(const Json& list, const std::set<std::string>& files,
                                          std::string& problem) {
  std::vector<ManifestTensor> tensors;
  std::set<std::string> names;
  for (const Json& json : list) {
    tensors.push_back(parse_tensor(json, files, problem));
    if (!names.insert(tensors.back().name).second && problem.empty()) {
      problem = concat("tensor ", shown(tensors.back().name), " is named twice");
    }
    if (!problem.empty()) {
      break;
    }
  }
  return tensors;
}

bool overlap(const Box& left, const Box& right) {
  for (int d = 0; d < left.first.rank(); ++d) {
    if (left.first[d] + left.size[d] <= right.first[d] ||
        right.first[d] + right.size[d] <= left.first[d]) {
      return false;
    }
  }
  return true;
}

std::string box_text(const Box& box) {
  return concat("first ", numbers(box.first), " size ", numbers(box.size));
}

// What is wrong with the text's own checksum; nothing if it is right.
std::string own_checksum_problem(std::string_view text) {
  const size_t at = text.find(kOwnChecksum);
  if (at == std::string_view::npos || at + kOwnChecksum.size() + kDigits > text.size()) {
    return "it has no checksum of its own; it is cut off or not a manifest of cadre";
  }
  const size_t digits_at = at + kOwnChecksum.size();
  const std::string_view digits = text.substr(digits_at, kDigits);
  const std::string found = checksum_text(own_checksum(text, digits_at));
  return found == digits ? ""
                         : concat("its own checksum is ", found, ", it says ", shown(digits),
                                  "; it is cut off or was changed");
}

}  // namespace

int64_t Manifest::bytes() const {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const ManifestFile& file) { return sum + file.bytes; });
}

std::string format_manifest(const Manifest& manifest) {
  std::string text = concat("{\n  \"format\": \"", kFormat,
                            "\",\n  \"format_version\": ", kManifestVersion, ",\n  ", kOwnChecksum);
  const size_t digits_at = text.size();
  text +=
      concat(std::string(kDigits, '0'), "\",\n  \"step\": ", manifest.step, ",\n  \"files\": [");
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    text += concat(i == 0 ? "" : ",", "\n    {\"name\": ", quoted_json(file.name),
                   ", \"bytes\": ", file.bytes, ", \"xxh3_64\": \"", checksum_text(file.checksum),
                   "\"}");
  }
  text += concat("\n  ],\n  \"model\": [", format_tensors(manifest.model),
                 "\n  ],\n  \"optimizer\": [", format_tensors(manifest.optimizer), "\n  ]\n}\n");
  text.replace(digits_at, kDigits, checksum_text(own_checksum(text, digits_at)));
  return text;
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view source) {
  Result<Json> json = parse_json(text, source);
  if (!json) {
    return json.error();
  }
  std::string problem;
  Fields fields(*json, "the manifest", problem);
  if (fields.text("format") != kFormat) {
    fields.fail(concat("needs \"format\": \"", kFormat, "\""));
  }
  if (const int64_t version = fields.count("format_version"); version != kManifestVersion) {
    fields.fail(concat("has format_version ", version, ", this program reads ", kManifestVersion));
  }
  if (problem.empty()) {
    problem = own_checksum_problem(text);
  }
  Manifest manifest{.step = fields.count("step")};
  std::set<std::string> names;
  for (const Json& entry : fields.array("files")) {
    Fields file(entry, "a file", problem);
    const std::string name = file.text("name");
    const std::optional<uint64_t> checksum = parse_checksum(file.text("xxh3_64"));
    manifest.files.push_back(
        {.name = name, .bytes = file.count("bytes"), .checksum = checksum.value_or(0)});
    if (!is_plain_file_name(name) || name == kManifestName || !names.insert(name).second) {
      file.fail(concat("may not be named ", shown(name), " or has the name of another"));
    }
    if (!checksum) {
      file.fail(concat(shown(name), " has no checksum of 16 hexadecimal digits"));
    }
  }
  manifest.model = parse_tensors(fields.array("model"), names, problem);
  manifest.optimizer = parse_tensors(fields.array("optimizer"), names, problem);
  if (!problem.empty()) {
    return input_error(source, ": ", problem);
  }
  return manifest;
}

bool has_manifest(const std::filesystem::path& folder) {
  if (!is_there(folder / kManifestName)) {
    return false;
  }
  if (is_there(folder / "trainer_state.json")) {
    return true;
  }
  const Result<std::string> text = read_file(folder / kManifestName, kManifestBytesMax);
  return !text || text->find(kFormat) != std::string::npos ||
         text->find(kOwnChecksum) != std::string::npos;
}

Result<Manifest> read_manifest(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kManifestName;
  const Result<std::string> text = read_file(path, kManifestBytesMax);
  if (!text) {
    return text.error();
  }
  return parse_manifest(*text, path.string());
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::string tiling_problem(const Shape& shape, std::span<const Box> boxes) {
  int64_t elements = 0;
  for (const Box& box : boxes) {
    if (box.first.rank() != shape.rank() || box.size.rank() != shape.rank()) {
      return concat("has a piece of another number of dimensions: ", box_text(box));
    }
    for (int d = 0; d < shape.rank(); ++d) {
      if (box.first[d] < 0 || box.size[d] < 0 || box.first[d] > shape[d] - box.size[d]) {
        return concat("has a piece outside its shape: ", box_text(box));
      }
    }
    elements += box.size.elements();
  }
  // Sorted by the first dimension, only pieces that share rows are compared with each other: row
  // ranges, the usual case, each with the next alone.
  std::vector<Box> sorted(boxes.begin(), boxes.end());
  const auto row = [&shape](const Box& box) { return shape.rank() == 0 ? 0 : box.first[0]; };
  std::ranges::sort(sorted, {}, row);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i].size.elements() == 0) {
      continue;
    }
    const int64_t end = row(sorted[i]) + (shape.rank() == 0 ? 1 : sorted[i].size[0]);
    for (size_t j = i + 1; j < sorted.size() && row(sorted[j]) < end; ++j) {
      if (sorted[j].size.elements() > 0 && overlap(sorted[i], sorted[j])) {
        return concat("has pieces that overlap: ", box_text(sorted[i]), " and ",
                      box_text(sorted[j]));
      }
    }
  }
  return elements == shape.elements() ? ""
                                      : concat("has pieces of ", elements, " elements, its shape ",
                                               numbers(shape), " has ", shape.elements());
}

}  // namespace cadre
