#include "spec/json_places.h"

#include "base/json.h"

namespace cadre {
namespace {

// Walks a text that is known to be valid, so that it never needs to say what is wrong.
class Walker {
 public:
  Walker(std::string_view text, std::string_view source, std::map<std::string, std::string>& places)
      : text_(text), source_(source), places_(places) {}

  void value(const std::string& path) {
    skip_space();
    if (!path.empty()) {
      places_[path] = concat(source_, ":", line_, ":", column_);
    }
    switch (letter()) {
      case '{':
        object(path);
        break;
      case '[':
        array(path);
        break;
      case '"':
        string();
        break;
      default:
        while (position_ < text_.size() && !is_end(letter())) {
          step();
        }
    }
  }

 private:
  char letter() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  static bool is_end(char c) { return is_space(c) || c == ',' || c == ']' || c == '}'; }

  void step() {
    const auto byte = static_cast<unsigned char>(letter());
    line_ += byte == '\n' ? 1 : 0;
    column_ = byte == '\n' ? 1 : column_ + ((byte & 0xC0u) == 0x80u ? 0 : 1);
    ++position_;
  }
  void skip_space() {
    while (position_ < text_.size() && (is_space(letter()) || letter() == ',' || letter() == ':')) {
      step();
    }
  }

  std::string string() {
    const size_t begin = position_;
    do {
      if (letter() == '\\') {
        step();
      }
      step();
    } while (position_ < text_.size() && letter() != '"');
    step();
    return Json::parse(text_.substr(begin, position_ - begin)).get<std::string>();
  }

  void object(const std::string& path) {
    step();
    for (skip_space(); position_ < text_.size() && letter() != '}'; skip_space()) {
      const std::string name = string();
      value(path.empty() ? name : path + "." + name);
    }
    step();
  }

  void array(const std::string& path) {
    step();
    for (skip_space(); position_ < text_.size() && letter() != ']'; skip_space()) {
      value(path + "[]");
    }
    step();
  }

  std::string_view text_;
  std::string_view source_;
  std::map<std::string, std::string>& places_;
  size_t position_ = 0;
  int64_t line_ = 1;
  int64_t column_ = 1;
};

}  // namespace

std::map<std::string, std::string> json_places(std::string_view text, std::string_view source) {
  std::map<std::string, std::string> places;
  Walker(text, source, places).value("");
  return places;
}

}  // namespace cadre
