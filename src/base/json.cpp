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
    ++keys_seen_;
    if (!keys_.back().insert(name).second) {
      problem_ = concat("the key \"", name, "\" stands twice in one object");
      key_ = keys_seen_;
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
  int64_t key() const { return key_; }  // number of the key that is the problem, from 1; 0: none is

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
  int64_t keys_seen_ = 0;
  int64_t key_ = 0;
};

// Where key `number` (from 1) of `text` begins. The parser does not tell; but up to there the text
// is JSON, in which a text before a colon is a key.
size_t offset_of_key(std::string_view text, int64_t number) {
  size_t string_begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ':' && --number == 0) {
      return string_begin;
    }
    if (text[at] == '"') {
      string_begin = at;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        at += text[at] == '\\' ? 1 : 0;
      }
    }
  }
  return std::string_view::npos;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return input_error(place(text, bad, source, limits), ": not valid UTF-8");
  }
  Inspector inspector(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &inspector)) {
    const size_t offset =
        inspector.key() > 0 ? offset_of_key(text, inspector.key()) : inspector.offset();
    return input_error(
        offset != std::string::npos ? place(text, offset, source, limits) : std::string(source),
        ": ", inspector.problem());
  }
  return Json::parse(text.begin(), text.end());
}

}  // namespace cadre
