// read_tokenizer_json: vocabulary and merges go from the parser straight into their tables, because
// a JSON tree of a hundred thousand keys is slow and large; the small rest becomes a tree.

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text.h"
#include "data/tokenizer/json_members.h"
#include "data/tokenizer/token_index.h"
#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {
namespace {

constexpr size_t kDepthMax = 64;
constexpr int64_t kUnusedIdsMax = 65536;  // ids without a token cost memory too

struct NamedId {
  std::string token;
  int64_t id = 0;
};

// A merge as it is written: "left right" or ["left", "right"].
struct NamedMerge {
  std::string left;
  std::string right;
};

class Handler final : public nlohmann::json_sax<Json> {
 public:
  std::vector<NamedId> vocab;
  std::vector<NamedMerge> merges;
  Json rest = nullptr;  // everything else, with empty places for vocab and merges
  std::string problem;

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return integer(number); }
  bool number_unsigned(number_unsigned_t number) override {
    return integer(number > INT64_MAX ? INT64_MAX : static_cast<int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override {
    switch (where_) {
      case Where::kMerges: {
        if (text.starts_with("#version")) {
          return true;
        }
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
          return refuse(concat("model.merges[", merges.size(), "] is \"", text,
                               "\", not two tokens with one space between"));
        }
        merges.push_back({text.substr(0, space), text.substr(space + 1)});
        return true;
      }
      case Where::kMerge:
        if (pair_.size() < 2) {
          pair_.push_back(std::move(text));
          return true;
        }
        return refuse(concat("model.merges[", merges.size(), "] has more than two tokens"));
      case Where::kVocab:
      case Where::kRest:
        break;
    }
    return value(std::move(text));
  }
  bool binary(binary_t&) override { return refuse("binary data in JSON"); }

  bool key(string_t& name) override {
    if (where_ == Where::kVocab) {
      token_ = std::move(name);
      return true;
    }
    if (!levels_.back().keys.insert(name).second) {
      return refuse(concat("the key \"", name, "\" stands twice in one object"));
    }
    levels_.back().key = std::move(name);
    return true;
  }

  bool start_object(size_t) override {
    if (where_ != Where::kRest) {
      return wrong_type("an object");
    }
    if (is_at_model("vocab")) {
      where_ = Where::kVocab;
      has_vocab = true;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (where_ == Where::kVocab) {
      where_ = Where::kRest;
      return true;
    }
    levels_.pop_back();
    return true;
  }
  bool start_array(size_t) override {
    if (where_ == Where::kMerges) {
      where_ = Where::kMerge;
      pair_.clear();
      return true;
    }
    if (where_ != Where::kRest) {
      return wrong_type("an array");
    }
    if (is_at_model("merges")) {
      where_ = Where::kMerges;
      has_merges = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (where_ == Where::kMerge) {
      where_ = Where::kMerges;
      if (pair_.size() != 2) {
        return refuse(
            concat("model.merges[", merges.size(), "] has ", pair_.size(), " tokens, not two"));
      }
      merges.push_back({std::move(pair_[0]), std::move(pair_[1])});
      return true;
    }
    if (where_ == Where::kMerges) {
      where_ = Where::kRest;
      return true;
    }
    levels_.pop_back();
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const size_t colon = what.find(": ");
    return refuse(concat("byte ", position, ": ",
                         colon == std::string_view::npos ? what : what.substr(colon + 2)));
  }

  bool has_vocab = false;
  bool has_merges = false;

 private:
  enum class Where { kRest, kVocab, kMerges, kMerge };
  struct Level {
    Json* node = nullptr;
    std::string key = {};
    std::set<std::string> keys = {};
  };

  bool refuse(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool wrong_type(std::string_view found) {
    if (where_ == Where::kVocab) {
      return refuse(concat("model.vocab[\"", token_, "\"] is ", found, ", not an id"));
    }
    return refuse(concat("model.merges[", merges.size(), "] holds ", found, ", not text"));
  }

  bool is_at_model(std::string_view name) const {
    return levels_.size() == 2 && levels_[0].key == "model" && levels_[1].key == name &&
           levels_[1].node->is_object();
  }

  bool integer(int64_t number) {
    if (where_ != Where::kVocab) {
      return value(number);
    }
    vocab.push_back({std::move(token_), number});
    return true;
  }

  bool value(Json item) {
    if (where_ != Where::kRest) {
      return wrong_type(item.type_name());
    }
    place(std::move(item));
    return true;
  }

  Json* place(Json item) {
    if (levels_.empty()) {
      rest = std::move(item);
      return &rest;
    }
    Level& level = levels_.back();
    if (level.node->is_array()) {
      level.node->push_back(std::move(item));
      return &level.node->back();
    }
    // Past the linear search of ordered_map: key() has seen that the name is new.
    auto& members = level.node->get_ref<Json::object_t&>();
    members.emplace_back(level.key, std::move(item));
    return &members.back().second;
  }

  bool open(Json container) {
    if (levels_.size() == kDepthMax) {
      return refuse(concat("nested more than ", kDepthMax, " deep"));
    }
    Json* node = place(std::move(container));
    levels_.push_back({.node = node});
    return true;
  }

  Where where_ = Where::kRest;
  std::vector<Level> levels_;  // nodes stay put: only the last one of each level grows
  std::string token_;
  std::vector<std::string> pair_;
};

// What a BPE model may say beyond its tables; empty if all of it is supported.
std::string read_model(const Json& model, TokenizerFile& file) {
  JsonMembers members(model, "model");
  // Old files have no type; what distinguishes BPE there is that it has merges.
  const std::string type = members.text("type").value_or("BPE");
  if (type != "BPE") {
    members.fail(concat("model.type \"", type, "\" is not supported, only \"BPE\""));
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!members.text(name).value_or("").empty()) {
      members.fail(concat("model.", name, " is not supported"));
    }
  }
  const Json* dropout = members.find("dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0.0)) {
    members.fail("model.dropout is not supported: ids would be random");
  }
  file.unk_token = members.text("unk_token");
  file.byte_fallback = members.flag("byte_fallback", false);
  file.fuse_unk = members.flag("fuse_unk", false);
  file.ignore_merges = members.flag("ignore_merges", false);
  return members.problem();
}

std::string read_added_token(const Json& entry, size_t number, TokenizerFile& file) {
  const std::string place = concat("added_tokens[", number, "]");
  JsonMembers members(entry, place);
  AddedToken token;
  const int64_t id = members.integer("id", -1);
  if (id < 0 || id > INT32_MAX) {
    members.fail(concat(place, ".id is ", id, ", not an id"));
  }
  token.id = static_cast<int32_t>(std::clamp<int64_t>(id, 0, INT32_MAX));
  token.content = members.text("content").value_or("");
  if (token.content.empty()) {
    members.fail(concat(place, " has no \"content\""));
  }
  token.special = members.flag("special", false);
  token.single_word = members.flag("single_word", false);
  token.lstrip = members.flag("lstrip", false);
  token.rstrip = members.flag("rstrip", false);
  token.normalized = members.flag("normalized", !token.special);
  file.added_tokens.push_back(std::move(token));
  return members.problem();
}

// Gives every token its place by id.
std::string place_vocab(std::vector<NamedId> vocab, TokenizerFile& file) {
  const int64_t ids_max = static_cast<int64_t>(vocab.size()) + kUnusedIdsMax;
  int64_t largest = -1;
  for (const NamedId& entry : vocab) {
    if (entry.id < 0 || entry.id >= ids_max) {
      return concat("model.vocab[\"", entry.token, "\"] is ", entry.id, ", not an id from 0 to ",
                    ids_max - 1, " (", vocab.size(), " tokens and at most ", kUnusedIdsMax,
                    " unused ids)");
    }
    largest = std::max(largest, entry.id);
  }
  file.vocab.resize(static_cast<size_t>(largest + 1));
  for (NamedId& entry : vocab) {
    std::optional<std::string>& place = file.vocab[static_cast<size_t>(entry.id)];
    if (place) {
      return concat("model.vocab gives the id ", entry.id, " to \"", *place, "\" and to \"",
                    entry.token, "\"");
    }
    place = std::move(entry.token);
  }
  return {};
}

std::string place_merges(const std::vector<NamedMerge>& merges, TokenizerFile& file) {
  TokenIndex index(file.vocab.size());
  for (size_t id = 0; id < file.vocab.size(); ++id) {
    if (file.vocab[id] && !index.insert(*file.vocab[id], static_cast<int32_t>(id))) {
      return concat("model.vocab has the token \"", *file.vocab[id], "\" twice");
    }
  }
  file.merges.reserve(merges.size());
  std::string whole;
  for (const NamedMerge& merge : merges) {
    whole = merge.left + merge.right;
    const Merge ids = {index.find(merge.left), index.find(merge.right), index.find(whole)};
    for (const auto& [id, token] :
         {std::pair{ids.left, &merge.left}, std::pair{ids.right, &merge.right},
          std::pair{ids.merged, &std::as_const(whole)}}) {
      if (id == TokenIndex::kNone) {
        return concat("model.merges[", file.merges.size(), "] joins \"", merge.left, "\" and \"",
                      merge.right, "\", but model.vocab has no \"", *token, "\"");
      }
    }
    file.merges.push_back(ids);
  }
  return {};
}

std::string read_parts(Handler& handler, TokenizerFile& file) {
  if (!handler.rest.is_object()) {
    return concat("the file holds ", handler.rest.type_name(), ", not an object");
  }
  const auto model = handler.rest.find("model");
  if (model == handler.rest.end()) {
    return "there is no \"model\"";
  }
  std::string problem = read_model(*model, file);
  if (problem.empty() && !handler.has_vocab) {
    problem = "model.vocab is missing or not an object of ids";
  }
  if (problem.empty() && !handler.has_merges) {
    problem = "model.merges is missing or not an array";
  }
  if (problem.empty()) {
    problem = place_vocab(std::move(handler.vocab), file);
  }
  if (problem.empty()) {
    problem = place_merges(handler.merges, file);
  }
  if (!problem.empty()) {
    return problem;
  }
  const auto take = [&handler](const char* name, Json& place) {
    const auto member = handler.rest.find(name);
    if (member != handler.rest.end()) {
      place = std::move(*member);
    }
  };
  take("normalizer", file.normalizer);
  take("pre_tokenizer", file.pre_tokenizer);
  take("post_processor", file.post_processor);
  take("decoder", file.decoder);
  Json added = nullptr;
  take("added_tokens", added);
  if (!added.is_null() && !added.is_array()) {
    return concat("added_tokens is ", added.type_name(), ", not an array");
  }
  for (size_t i = 0; i < added.size() && problem.empty(); ++i) {
    problem = read_added_token(added[i], i, file);
  }
  return problem;
}

}  // namespace

Result<TokenizerFile> read_tokenizer_json(std::string_view text, std::string_view source) {
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return input_error(source, ": not valid UTF-8 at byte ", bad);
  }
  Handler handler;
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
    return input_error(source, ": ", handler.problem);
  }
  TokenizerFile file;
  if (const std::string problem = read_parts(handler, file); !problem.empty()) {
    return input_error(source, ": ", problem);
  }
  return file;
}

}  // namespace cadre::data
