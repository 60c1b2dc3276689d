#include "data/tokenizer/pattern.h"

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

bool is_white(char32_t value) {
  return (CategoryTable::get().of(value) & kWhite) != 0;
}

}  // namespace

Result<Pattern> Pattern::parse(JsonMembers& members) {
  const Json* json = members.find("pattern");
  if (json == nullptr) {
    return input_error(members.place(), " has no \"pattern\"");
  }
  JsonMembers inside(*json, members.place() + ".pattern");
  const std::optional<std::string> text = inside.text("String");
  const std::optional<std::string> regex = inside.text("Regex");
  if (!inside.problem().empty()) {
    return input_error(inside.problem());
  }
  if (text && !regex && !text->empty()) {
    return of_text(*text);
  }
  if (!regex || text) {
    return input_error(inside.place(),
                       " has neither \"String\" nor \"Regex\", or both, or is empty");
  }
  Result<Pattern> parsed = of_regex(*regex);
  if (!parsed) {
    return input_error(inside.place(), ": ", parsed.error().message);
  }
  return parsed;
}

Pattern Pattern::of_text(std::string_view text) {
  Pattern pattern;
  pattern.text_ = text;
  return pattern;
}

Result<Pattern> Pattern::of_regex(std::string_view regex) {
  Result<Regex> parsed = Regex::parse(regex);
  if (!parsed) {
    return parsed.error();
  }
  Pattern pattern;
  pattern.regex_text_ = regex;
  pattern.regex_ = std::move(*parsed);
  return pattern;
}

void Pattern::begin_text(std::string_view text, RegexScratch& scratch) const {
  if (regex_) {
    regex_->begin_text(text, scratch);
  }
}

bool Pattern::find(std::string_view text, size_t from, RegexScratch& scratch,
                   Regex::Match& match) const {
  if (regex_) {
    return regex_->find(text, from, scratch, match);
  }
  const size_t begin = text.find(text_, from);
  match = {.begin = begin, .end = begin + text_.size()};
  return begin != std::string_view::npos;
}

std::string_view Pattern::replace_all(std::string_view text, std::string_view content,
                                      std::string& storage) const {
  RegexScratch scratch;
  begin_text(text, scratch);
  Regex::Match match;
  size_t done = 0;
  if (!find(text, 0, scratch, match)) {
    return text;
  }
  storage.clear();
  do {
    storage.append(text.substr(done, match.begin - done));
    storage.append(content);
    done = match.end;
  } while (find(text, done, scratch, match));
  storage.append(text.substr(done));
  return storage;
}

size_t leading_white(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (!is_white(point.value)) {
      break;
    }
    at += point.size;
  }
  return at;
}

size_t trailing_white(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    if (!is_white(code_point_at(text, begin).value)) {
      break;
    }
    end = begin;
  }
  return text.size() - end;
}

}  // namespace cadre::data
