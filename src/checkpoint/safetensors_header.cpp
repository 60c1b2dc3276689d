// Reading the header of a safetensors file. The text is walked once, without a tree of it in
// memory: what is stored is bounded by the header's own size.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shown.h"

namespace cadre {
namespace {

constexpr size_t kDimensionsMax = 64;

// Elements of `shape` times `element_bytes`; -1 if that is beyond an int64_t.
int64_t bytes_of_shape(const std::vector<int64_t>& shape, int64_t element_bytes) {
  if (std::ranges::find(shape, 0) != shape.end()) {
    return 0;
  }
  int64_t bytes = element_bytes;
  for (const int64_t size : shape) {
    if (bytes > std::numeric_limits<int64_t>::max() / size) {
      return -1;
    }
    bytes *= size;
  }
  return bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    text += concat(text.size() == 1 ? "" : ", ", size);
  }
  return text + "]";
}

// Called by the parser with one event after the other; each returns false to stop, with `problem`.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(SafetensorsHeader& header) : header_(header) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not a whole one below 2^63");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return unexpected("a number of 2^63 or more");
    }
    if (place_ == Place::kShape) {
      tensor_.shape.push_back(static_cast<int64_t>(number));
      return tensor_.shape.size() <= kDimensionsMax || stop("has more than 64 dimensions");
    }
    if (place_ == Place::kOffsets) {
      offsets_.push_back(static_cast<int64_t>(number));
      return offsets_.size() <= 2 || stop("has more than two data_offsets");
    }
    return unexpected("a number");
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      return header_.metadata.emplace(name_, text).second || stop("stands twice in __metadata__");
    }
    if (place_ == Place::kTensor && field_ == "dtype") {
      const std::optional<StoredType> type = stored_type_named(text);
      tensor_.type = type.value_or(StoredType::kF32);
      return type.has_value() || stop(concat("has the unknown dtype ", shown(text)));
    }
    return unexpected("a string");
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        tensor_ = {.name = name_};
        offsets_.clear();
        fields_seen_ = 0;
        place_ = name_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& text) override {
    if (place_ != Place::kTensor) {
      name_ = std::move(text);
      return true;
    }
    const unsigned field = text == "dtype"          ? 1
                           : text == "shape"        ? 2
                           : text == "data_offsets" ? 4
                                                    : 0;
    field_ = std::move(text);
    if (field == 0) {
      return stop(concat("has the unknown key ", shown(field_)));
    }
    if ((fields_seen_ & field) != 0) {
      return stop(concat("has ", field_, " twice"));
    }
    fields_seen_ |= field;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && field_ != "dtype") {
      place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
      return true;
    }
    return unexpected("an array");
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kOutside;
      return true;
    }
    const bool was_tensor = std::exchange(place_, Place::kTop) == Place::kTensor;
    return !was_tensor || finish_tensor();
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    problem_ = concat("its header is not JSON at byte ", position + 7, " of the file");
    return false;
  }

 private:
  enum class Place { kOutside, kTop, kTensor, kShape, kOffsets, kMetadata };

  bool stop(const std::string& what) {
    problem_ = concat("tensor ", shown(name_), " ", what);
    return false;
  }

  bool unexpected(std::string_view found) {
    if (place_ == Place::kOutside || place_ == Place::kTop) {
      problem_ = concat("its header has ", found, " where an object is expected");
      return false;
    }
    return stop(concat("has ", found, " in its ", place_ == Place::kMetadata ? "text" : field_));
  }

  bool finish_tensor() {
    if (fields_seen_ != 7) {
      return stop("lacks one of dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      return stop(concat(
          "has data_offsets ",
          offsets_.size() == 2 ? shape_text(offsets_) : concat("of ", offsets_.size(), " numbers"),
          "; allowed is [begin, end] with begin <= end"));
    }
    tensor_.offset = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    const int64_t wanted = bytes_of_shape(tensor_.shape, bytes_of(tensor_.type));
    if (wanted < 0) {
      return stop(concat("has a shape that overflows: ", shape_text(tensor_.shape)));
    }
    if (wanted != tensor_.bytes) {
      return stop(concat("of type ", name_of(tensor_.type), " and shape ",
                         shape_text(tensor_.shape), " needs ", wanted,
                         " bytes, its data_offsets span ", tensor_.bytes));
    }
    header_.tensors.push_back(std::move(tensor_));
    return true;
  }

  SafetensorsHeader& header_;
  Place place_ = Place::kOutside;
  std::string name_;   // the key of the top object that is being read, or of __metadata__
  std::string field_;  // the key of the tensor's object
  StoredTensor tensor_;
  std::vector<int64_t> offsets_;
  unsigned fields_seen_ = 0;  // bits: dtype, shape, data_offsets
  std::string problem_;
};

// The tensors, sorted by offset, must fill the data exactly. Returns what is wrong, or nothing.
std::string layout_problem(const std::vector<StoredTensor>& tensors, int64_t data_bytes) {
  int64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != end) {
      return concat("tensor ", shown(tensor.name), " begins at ", tensor.offset,
                    tensor.offset < end ? ", inside the tensor before it, which ends at "
                                        : ", which leaves a hole after ",
                    end);
    }
    end += tensor.bytes;  // offset + bytes was data_offsets[1]: no overflow
    if (end > data_bytes) {
      return concat("tensor ", shown(tensor.name), " ends at byte ", end,
                    " of the data, which has ", data_bytes, "; the file may be cut off");
    }
  }
  return end == data_bytes ? "" : concat(data_bytes - end, " bytes after the last tensor");
}

std::string duplicate_name(const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> names(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    names[i] = tensors[i].name;
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() ? "" : concat("tensor ", shown(*twice), " is named twice");
}

// The length that the first eight bytes say, or why it cannot be.
Result<int64_t> header_length(std::string_view start, int64_t file_bytes, std::string_view source) {
  if (file_bytes < 8 || start.size() < 8) {
    return input_error(shown(source), ": ", file_bytes, " bytes are no safetensors file");
  }
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  if (length > static_cast<uint64_t>(file_bytes - 8)) {
    return input_error(shown(source), ": the header's length is ", length, ", the whole file has ",
                       file_bytes, " bytes; it is cut off or no safetensors file");
  }
  if (length > static_cast<uint64_t>(kHeaderBytesMax)) {
    return input_error(shown(source), ": the header's length is ", length, ", at most ",
                       kHeaderBytesMax, " are allowed");
  }
  return static_cast<int64_t>(length);
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view start, int64_t file_bytes,
                                                   std::string_view source) {
  const Result<int64_t> length = header_length(start, file_bytes, source);
  if (!length) {
    return length.error();
  }
  CADRE_CHECK(std::ssize(start) >= 8 + *length, start.size(), " bytes given of ", *length);
  const std::string_view text = start.substr(8, static_cast<size_t>(*length));
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return input_error(shown(source), ": its header is not valid UTF-8 at byte ", bad + 8,
                       " of the file");
  }
  if (text.empty() || text[0] != '{') {
    return input_error(shown(source), ": its header does not begin with {");
  }
  SafetensorsHeader header;
  HeaderEvents events(header);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events)) {
    return input_error(shown(source), ": ", events.problem());
  }
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& tensor) {
    return std::pair(tensor.offset, tensor.bytes);
  });
  std::string problem = duplicate_name(header.tensors);
  if (problem.empty()) {
    problem = layout_problem(header.tensors, file_bytes - 8 - *length);
  }
  if (!problem.empty()) {
    return input_error(shown(source), ": ", problem);
  }
  for (StoredTensor& tensor : header.tensors) {
    tensor.offset += 8 + *length;
  }
  return header;
}

}  // namespace cadre
