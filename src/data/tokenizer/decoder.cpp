#include "data/tokenizer/decoder.h"

#include <array>
#include <optional>
#include <utility>

#include "data/tokenizer/growth_budget.h"
#include "data/tokenizer/json_members.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

struct ByteSpelling {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 0x180> to_byte{};  // by code point; -1 for none

  ByteSpelling() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      of_byte[byte] = prints ? byte : next++;
      to_byte[of_byte[byte]] = static_cast<int>(byte);
    }
  }
  static const ByteSpelling& get() {
    static const ByteSpelling spelling;
    return spelling;
  }
};

// The byte that <0x..> stands for.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') {
    return std::nullopt;
  }
  int value = 0;
  for (const char digit : token.substr(3, 2)) {
    const char lower = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + (digit - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

// One step of what is done to every token before all are joined.
struct TokenStep {
  enum class Kind { kReplace, kByteFallback, kByteLevel, kStrip };
  Kind kind = Kind::kReplace;
  std::optional<Pattern> pattern = std::nullopt;
  std::string content = {};
  int64_t start = 0;
  int64_t stop = 0;
};

class Parser {
 public:
  Status parse(const Json& json) { return json.is_null() ? none() : add(json, "decoder"); }

  std::vector<TokenStep> steps;
  std::string separator;
  std::string stripped;
  int64_t strip_at_start = 0;

 private:
  Status none() {
    separator.assign(1, ' ');
    return {};
  }

  Status add(const Json& json, const std::string& place) {
    JsonMembers members(json, place);
    const std::string type = members.required_text("type");
    if (type == "Sequence") {
      const Json& list = members.array("decoders");
      for (size_t i = 0; i < list.size() && members.problem().empty(); ++i) {
        if (Status status = add(list[i], concat(place, ".decoders[", i, "]")); !status) {
          return status;
        }
      }
    } else if (type == "Fuse") {
      fused_ = true;
    } else if (type == "Strip") {
      add_strip(members);
    } else if (type == "Metaspace") {
      add_metaspace(members);
    } else if (type == "Replace") {
      Result<Pattern> pattern = Pattern::parse(members);
      if (!pattern) {
        return pattern.error();
      }
      add_step(members, {.kind = TokenStep::Kind::kReplace,
                         .pattern = std::move(*pattern),
                         .content = members.text("content").value_or("")});
    } else if (type == "ByteFallback") {
      add_step(members, {.kind = TokenStep::Kind::kByteFallback});
    } else if (type == "ByteLevel") {
      add_step(members, {.kind = TokenStep::Kind::kByteLevel});
    } else if (members.problem().empty()) {
      members.fail(concat(place, ": the type \"", type,
                          "\" is not supported (only ByteLevel, Metaspace, ByteFallback, Fuse, "
                          "Strip, Replace and Sequence)"));
    }
    return members.problem().empty() ? Status() : Status(input_error(members.problem()));
  }

  void add_step(JsonMembers& members, TokenStep step) {
    if (fused_ || strip_at_start > 0) {
      members.fail(concat(members.place(), ": only Strip is supported behind Fuse"));
    }
    if (!budget_.spend(step.content.size())) {
      members.fail(concat(members.place(), ": too many steps, or they make a text too long"));
    }
    steps.push_back(std::move(step));
  }

  void add_strip(JsonMembers& members) {
    const std::string content = members.text("content").value_or("");
    const int64_t start = members.integer("start", 0);
    const int64_t stop = members.integer("stop", 0);
    if (content.empty() || utf8_size(static_cast<unsigned char>(content[0])) != content.size() ||
        start < 0 || stop < 0) {
      members.fail(concat(members.place(), " needs one character as content, and counts"));
    } else if (!fused_) {
      add_step(members,
               {.kind = TokenStep::Kind::kStrip, .content = content, .start = start, .stop = stop});
    } else if (stop > 0 || (strip_at_start > 0 && content != stripped)) {
      members.fail(
          concat(members.place(), ": behind Fuse, only one Strip at the start is supported"));
    } else {
      stripped = content;
      strip_at_start += start;
    }
  }

  void add_metaspace(JsonMembers& members) {
    const std::string mark = members.text("replacement").value_or("\xE2\x96\x81");
    const bool prefix = members.flag("add_prefix_space", true);
    const std::string scheme = members.text("prepend_scheme").value_or(prefix ? "always" : "never");
    if (mark.empty()) {
      members.fail(concat(members.place(), ".replacement is empty"));
      return;
    }
    add_step(
        members,
        {.kind = TokenStep::Kind::kReplace, .pattern = Pattern::of_text(mark), .content = " "});
    if (scheme != "never") {
      stripped.assign(1, ' ');
      strip_at_start = 1;
    }
  }

  bool fused_ = false;
  GrowthBudget budget_;
};

void apply_strip(const TokenStep& step, std::string& bytes) {
  const std::string& content = step.content;
  size_t begin = 0;
  for (int64_t i = 0; i < step.start && bytes.compare(begin, content.size(), content) == 0; ++i) {
    begin += content.size();
  }
  size_t end = bytes.size();
  for (int64_t i = 0; i < step.stop && end >= begin + content.size() &&
                      bytes.compare(end - content.size(), content.size(), content) == 0;
       ++i) {
    end -= content.size();
  }
  bytes.erase(end);
  bytes.erase(0, begin);
}

Decoder::Piece piece_of(const std::string& token, const std::vector<TokenStep>& steps,
                        bool is_added) {
  Decoder::Piece piece{.bytes = token};
  std::string storage;
  for (const TokenStep& step : steps) {
    switch (step.kind) {
      case TokenStep::Kind::kReplace:
        piece.bytes = std::string(step.pattern->replace_all(piece.bytes, step.content, storage));
        break;
      case TokenStep::Kind::kByteFallback:
        if (const std::optional<char> byte = fallback_byte(piece.bytes)) {
          piece.bytes.assign(1, *byte);
        } else {
          piece.whole = true;
        }
        break;
      case TokenStep::Kind::kByteLevel:
        if (is_added || !bytes_of_spelling(piece.bytes, storage)) {
          piece.whole = true;
        } else {
          piece.bytes = storage;
        }
        break;
      case TokenStep::Kind::kStrip:
        apply_strip(step, piece.bytes);
        break;
    }
  }
  return piece;
}

}  // namespace

bool bytes_of_spelling(std::string_view spelled, std::string& bytes) {
  const ByteSpelling& spelling = ByteSpelling::get();
  std::string result;
  for (size_t at = 0; at < spelled.size();) {
    const CodePoint point = code_point_at(spelled, at);
    if (point.value >= spelling.to_byte.size() || spelling.to_byte[point.value] < 0) {
      return false;
    }
    result.push_back(static_cast<char>(static_cast<unsigned char>(spelling.to_byte[point.value])));
    at += point.size;
  }
  bytes = std::move(result);
  return true;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) {
    append_utf8(spelled, ByteSpelling::get().of_byte[static_cast<unsigned char>(byte)]);
  }
  return spelled;
}

Result<Decoder> Decoder::parse(const TokenizerFile& file, int64_t vocab_size) {
  Parser parser;
  if (Status status = parser.parse(file.decoder); !status) {
    return status.error();
  }
  Decoder decoder{.separator = parser.separator,
                  .stripped = parser.stripped,
                  .strip_at_start = parser.strip_at_start};
  std::string replacement;
  append_utf8(replacement, kReplacement);
  decoder.pieces.resize(static_cast<size_t>(vocab_size), {.bytes = replacement, .whole = true});
  for (size_t id = 0; id < file.vocab.size(); ++id) {
    if (file.vocab[id]) {
      decoder.pieces[id] = piece_of(*file.vocab[id], parser.steps, false);
    }
  }
  for (const AddedToken& token : file.added_tokens) {
    decoder.pieces[static_cast<size_t>(token.id)] = piece_of(token.content, parser.steps, true);
  }
  return decoder;
}

}  // namespace cadre::data
