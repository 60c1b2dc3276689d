#include "data/json_field.h"

#include <utility>

#include "base/json.h"

namespace cadre::data {
namespace {

class FieldFinder final : public nlohmann::json_sax<Json> {
 public:
  explicit FieldFinder(std::string_view field) : field_(field) {}

  std::optional<std::string> take() { return std::move(text_); }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    if (wanted_) {
      text_ = std::move(value);
      wanted_ = false;
    }
    return depth_ > 0;
  }
  bool key(string_t& name) override {
    wanted_ = depth_ == 1 && name == field_;
    return !wanted_ || !text_;  // twice
  }
  bool start_object(size_t) override { return enter(); }
  bool start_array(size_t) override { return depth_ > 0 && enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool other() const { return depth_ > 0 && !wanted_; }
  bool enter() { return !wanted_ && ++depth_ <= JsonLimits().depth_max; }
  bool leave() {
    --depth_;
    return true;
  }

  std::string_view field_;
  std::optional<std::string> text_;
  int depth_ = 0;
  bool wanted_ = false;  // the value that comes next
};

}  // namespace

std::optional<std::string> find_text_field(std::string_view line, std::string_view field) {
  FieldFinder finder(field);
  if (!Json::sax_parse(line.begin(), line.end(), &finder)) {
    return std::nullopt;
  }
  return finder.take();
}

}  // namespace cadre::data
