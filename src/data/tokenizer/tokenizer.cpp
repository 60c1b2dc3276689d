#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/tokenizer_parts.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 32;

// One text on its way through the parts.
class Encoding {
 public:
  Encoding(const Tokenizer::Parts& parts, const EncodeOptions& options, EncodeScratch& scratch,
           std::vector<int32_t>& ids)
      : parts_(parts), options_(options), scratch_(scratch), ids_(ids), begin_(ids.size()) {
    scratch_.steps.resize(parts_.pre_tokenizer.steps.size());
  }

  void run(std::string_view text) {
    const AddedTokenMatcher& matcher = parts_.before_normalizing.of(options_.parse_special);
    cut(matcher, text,
        [this](std::string_view section, bool at_start) { encode_section(section, at_start); });
  }

 private:
  // Appends the added tokens of `text` and calls `encode` for what lies between.
  template <typename Encode>
  void cut(const AddedTokenMatcher& matcher, std::string_view text, const Encode& encode) {
    AddedTokenMatcher::Match match;
    size_t at = 0;
    while (matcher.find(text, at, match)) {
      if (match.begin > at) {
        encode(text.substr(at, match.begin - at), at == 0);
      }
      ids_.push_back(match.token->id);
      at = match.end;
    }
    if (at < text.size()) {
      encode(text.substr(at), at == 0);
    }
  }

  void encode_section(std::string_view section, bool at_start) {
    if (parts_.normalizer.is_empty() && parts_.file.normalizer.is_null()) {
      encode_normalized(section, at_start);
      return;
    }
    const std::string_view text =
        parts_.normalizer.apply(section, scratch_.normalized, !is_continued());
    cut(parts_.after_normalizing.of(options_.parse_special), text,
        [this, at_start](std::string_view part, bool) { encode_normalized(part, at_start); });
  }

  void encode_normalized(std::string_view text, bool at_start) {
    scratch_.bpe.section = ids_.size();
    encode_piece(0, text, text.data() + text.size(), at_start);
  }

  // `end` is that of the memory that holds the piece.
  void encode_piece(size_t number, std::string_view piece, const char* end, bool at_start) {
    if (number == parts_.pre_tokenizer.steps.size()) {
      const auto readable = static_cast<size_t>(end - piece.data());
      parts_.bpe->encode(piece, readable, scratch_.bpe, ids_);
      return;
    }
    const PreTokenizerStep& step = parts_.pre_tokenizer.steps[number];
    EncodeScratch::Step& own = scratch_.steps[number];
    if (step.splitter == nullptr) {
      const auto where = is_continued() ? PreTokenizerStep::Where::kContinued
                         : at_start     ? PreTokenizerStep::Where::kAtStart
                                        : PreTokenizerStep::Where::kInside;
      const std::string_view text = step.rewrite(piece, where, own.rewritten);
      const bool is_rewritten = text.data() == own.rewritten.data();
      encode_piece(number + 1, text, is_rewritten ? text.data() + text.size() : end, at_start);
      return;
    }
    step.splitter->begin_text(piece, own.regex);
    for (size_t from = 0; from < piece.size();) {
      own.batch.size = 0;
      step.splitter->next_batch(piece, from, own.regex, own.batch);
      for (size_t i = 0; i < own.batch.size; ++i) {
        const size_t piece_end = own.batch.ends[i];
        if (!own.batch.dropped[i]) {
          encode_piece(number + 1, piece.substr(from, piece_end - from), end, at_start);
        }
        from = piece_end;
      }
    }
  }

  // Whether what comes next goes on where another text ended.
  bool is_continued() const { return options_.continues && ids_.size() == begin_; }

  const Tokenizer::Parts& parts_;
  const EncodeOptions& options_;
  EncodeScratch& scratch_;
  std::vector<int32_t>& ids_;
  size_t begin_;  // of this text in ids_
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

void Tokenizer::encode_append(std::string_view text, const EncodeOptions& options,
                              std::vector<int32_t>& ids) const {
  CADRE_CHECK(text.size() < kTextBytesMax, "a text of ", text.size(), " bytes");
  std::unique_ptr<EncodeScratch> scratch = parts_->pool.take();
  const PostProcessor& around = parts_->post_processor;
  if (options.add_special_tokens) {
    ids.insert(ids.end(), around.before.begin(), around.before.end());
  }
  Encoding(*parts_, options, *scratch, ids).run(valid_utf8(text, scratch->valid));
  if (options.add_special_tokens) {
    ids.insert(ids.end(), around.behind.begin(), around.behind.end());
  }
  parts_->pool.give(std::move(scratch));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  encode_append(text, options, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  Stream stream(*this, options);
  std::string text;
  for (const int32_t id : ids) {
    stream.push_to(id, text);
  }
  stream.flush_to(text);
  return text;
}

std::string Tokenizer::Stream::push(int32_t id) {
  std::string text;
  push_to(id, text);
  return text;
}

std::string Tokenizer::Stream::finish() {
  std::string text;
  flush_to(text);
  return text;
}

void Tokenizer::Stream::push_to(int32_t id, std::string& text) {
  if (options_.skip_special && tokenizer_.is_special(id)) {
    return;
  }
  const Decoder& decoder = tokenizer_.parts_->decoder;
  static const Decoder::Piece kUnknown{.bytes = "\xEF\xBF\xBD", .whole = true};
  const bool is_known = id >= 0 && id < tokenizer_.vocab_size();
  const Decoder::Piece& piece = is_known ? decoder.pieces[static_cast<size_t>(id)] : kUnknown;
  if (tokens_++ > 0 && !decoder.separator.empty()) {
    flush_to(text);
    text += decoder.separator;
  }
  if (piece.whole) {
    flush_to(text);
    append(piece.bytes, text);
    return;
  }
  held_ += piece.bytes;
  release_to(text);
}

// Gives out the characters that are complete.
void Tokenizer::Stream::release_to(std::string& text) {
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Prefix prefix = inspect_utf8(std::string_view(held_).substr(at));
    if (!prefix.complete) {
      break;
    }
    if (prefix.valid) {
      append(std::string_view(held_).substr(at, prefix.size), text);
    } else {
      append("\xEF\xBF\xBD", text);
    }
    at += prefix.size;
  }
  held_.erase(0, at);
}

void Tokenizer::Stream::flush_to(std::string& text) {
  if (!held_.empty()) {  // a character that will not be completed
    held_.clear();
    append("\xEF\xBF\xBD", text);
  }
}

void Tokenizer::Stream::append(std::string_view piece, std::string& text) {
  const Decoder& decoder = tokenizer_.parts_->decoder;
  while (at_start_ && stripped_ < decoder.strip_at_start && piece.starts_with(decoder.stripped)) {
    piece.remove_prefix(decoder.stripped.size());
    ++stripped_;
  }
  at_start_ = at_start_ && piece.empty();
  text += piece;
}

int64_t Tokenizer::vocab_size() const {
  return parts_->vocab_size;
}

std::optional<int32_t> Tokenizer::bos_id() const {
  return parts_->bos_id;
}

std::optional<int32_t> Tokenizer::eos_id() const {
  return parts_->eos_ids.empty() ? std::nullopt : std::optional<int32_t>(parts_->eos_ids[0]);
}

const std::vector<int32_t>& Tokenizer::eos_ids() const {
  return parts_->eos_ids;
}

std::optional<std::string> Tokenizer::token_of_id(int32_t id) const {
  const auto place = static_cast<size_t>(id);
  if (id >= 0 && place < parts_->file.vocab.size() && parts_->file.vocab[place]) {
    return parts_->file.vocab[place];
  }
  for (const AddedToken& token : parts_->file.added_tokens) {
    if (token.id == id) {
      return token.content;
    }
  }
  return std::nullopt;
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && id < vocab_size() && parts_->is_special[static_cast<size_t>(id)];
}

}  // namespace cadre::data
