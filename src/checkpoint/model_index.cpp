#include "checkpoint/model_index.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shown.h"

namespace cadre {
namespace {

// Keeps what is in "weight_map" and passes over everything else, at any depth.
class IndexEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexEvents(ModelIndex& index) : index_(index) {}

  const std::string& problem() const { return problem_; }
  bool has_map() const { return maps_ == 1; }

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }

  bool string(string_t& text) override {
    if (!in_map_) {
      return scalar();
    }
    if (!is_plain_file_name(text)) {
      return stop(concat("tensor ", shown(key_), " is said to be in ", shown(text),
                         ", which is not the name of a file beside the index"));
    }
    return index_.file_of.emplace(std::move(key_), std::move(text)).second ||
           stop("a tensor is named twice");
  }

  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool start_object(size_t) override {
    if (in_map_) {
      return stop(concat("tensor ", shown(key_), " has an object where a file name is expected"));
    }
    in_map_ = depth_ == 1 && key_ == "weight_map";
    maps_ += in_map_ ? 1 : 0;
    ++depth_;
    return maps_ <= 1 || stop("\"weight_map\" stands twice");
  }
  bool end_object() override {
    in_map_ = false;
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    ++depth_;
    return scalar();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return stop(concat("not JSON at byte ", position));
  }

 private:
  bool scalar() { return !in_map_ || stop(concat("tensor ", shown(key_), " has no file name")); }
  bool stop(const std::string& what) {
    problem_ = what;
    return false;
  }

  ModelIndex& index_;
  std::string key_;
  int64_t depth_ = 0;
  int maps_ = 0;
  bool in_map_ = false;
  std::string problem_;
};

}  // namespace

Result<ModelIndex> parse_model_index(std::string_view text, std::string_view source) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return input_error(shown(source), ": not valid UTF-8 at byte ", bad);
  }
  ModelIndex index;
  IndexEvents events(index);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events)) {
    return input_error(shown(source), ": ", events.problem());
  }
  if (!events.has_map()) {
    return input_error(shown(source), ": it has no \"weight_map\"");
  }
  return index;
}

}  // namespace cadre
