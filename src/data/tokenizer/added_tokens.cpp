#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

// Whether the character at `at`, or the one that ends there, is part of a word.
bool is_word_at(std::string_view text, size_t at) {
  const Categories bits = CategoryTable::get().of(code_point_at(text, at).value);
  return (bits & (kLetter | kMark | kNumber | set_of(Category::kPc))) != 0;
}

bool is_word_before(std::string_view text, size_t at) {
  do {
    --at;
  } while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return is_word_at(text, at);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.content < b.content; });
  for (const Entry& entry : entries_) {
    begins_[static_cast<unsigned char>(entry.content[0])] = true;
  }
  if (std::count(begins_.begin(), begins_.end(), true) == 1) {
    only_begin_ = static_cast<unsigned char>(entries_[0].content[0]);
  }
}

// Where a byte stands that some content begins with, or npos.
size_t AddedTokenMatcher::candidate(std::string_view text, size_t from) const {
  if (only_begin_ >= 0) {
    return text.find(static_cast<char>(static_cast<unsigned char>(only_begin_)), from);
  }
  while (from < text.size() && !begins_[static_cast<unsigned char>(text[from])]) {
    ++from;
  }
  return from < text.size() ? from : std::string_view::npos;
}

// Narrows the sorted contents byte by byte; what is as long as the bytes looked at is a match.
const AddedTokenMatcher::Entry* AddedTokenMatcher::longest_at(std::string_view text,
                                                              size_t at) const {
  const Entry* longest = nullptr;
  auto first = entries_.begin();
  auto last = entries_.end();
  for (size_t depth = 0; at + depth < text.size(); ++depth) {
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [depth](const Entry& entry) {
      return entry.content.size() > depth
                 ? static_cast<int>(static_cast<unsigned char>(entry.content[depth]))
                 : -1;
    };
    first =
        std::lower_bound(first, last, static_cast<int>(byte),
                         [&](const Entry& entry, int wanted) { return byte_of(entry) < wanted; });
    last =
        std::upper_bound(first, last, static_cast<int>(byte),
                         [&](int wanted, const Entry& entry) { return wanted < byte_of(entry); });
    if (first == last) {
      break;
    }
    if (first->content.size() == depth + 1) {
      longest = &*first;
    }
  }
  return longest;
}

bool AddedTokenMatcher::find(std::string_view text, size_t from, Match& match) const {
  size_t at = from;
  while (!entries_.empty() && (at = candidate(text, at)) != std::string_view::npos) {
    const Entry* entry = longest_at(text, at);
    if (entry == nullptr) {
      ++at;
      continue;
    }
    const size_t end = at + entry->content.size();
    const AddedToken& token = *entry->token;
    if (token.single_word &&
        ((at > 0 && is_word_before(text, at)) || (end < text.size() && is_word_at(text, end)))) {
      at = end;
      continue;
    }
    match.token = &token;
    match.begin = token.lstrip ? at - trailing_white(text.substr(from, at - from)) : at;
    match.end = token.rstrip ? end + leading_white(text.substr(end)) : end;
    return true;
  }
  return false;
}

}  // namespace cadre::data
