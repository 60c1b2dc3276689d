#include "base/json.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace cadre {
namespace {

std::string place(std::string_view text, size_t offset, std::string_view source,
                  const JsonLimits& limits) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = limits.first_line + std::count(before.begin(), before.end(), '\n');
  const size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return concat(source, ":", line, ":", before.size() - line_start + 1);
}

// Looks at the text once without building anything: the first duplicate key, or too much depth.
class Inspector final : public nlohmann::json_sax<Json> {
 public:
  explicit Inspector(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool start_array(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      problem_ = concat("the key \"", name, "\" stands twice in one object");
      return false;
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    offset_ = position == 0 ? 0 : position - 1;
    const std::string_view what = error.what();
    // "[json.exception...] parse error at line L, column C: WHAT": the place is ours to tell.
    const size_t colon = what.find(": ");
    problem_ = colon == std::string_view::npos ? what : what.substr(colon + 2);
    return false;
  }

  const std::string& problem() const { return problem_; }
  size_t offset() const { return offset_; }

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() > static_cast<size_t>(limits_.depth_max)) {
      problem_ = concat("nested more than ", limits_.depth_max, " deep");
      return false;
    }
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  std::vector<std::set<std::string>> keys_;
  std::string problem_;
  size_t offset_ = std::string::npos;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return input_error(place(text, bad, source, limits), ": not valid UTF-8");
  }
  Inspector inspector(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &inspector)) {
    const bool has_place = inspector.offset() != std::string::npos;
    return input_error(
        has_place ? place(text, inspector.offset(), source, limits) : std::string(source), ": ",
        inspector.problem());
  }
  return Json::parse(text.begin(), text.end());
}

}  // namespace cadre
