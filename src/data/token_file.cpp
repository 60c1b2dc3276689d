#include "data/token_file.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <istream>
#include <memory>
#include <optional>
#include <streambuf>
#include <utility>

#include "base/json.h"
#include "storage/byte_stream.h"

namespace cadre::data {
namespace {

constexpr size_t kIdsPerPiece = size_t{1} << 18;
constexpr int kDepthMax = 64;

// A ByteStream as the parser wants it. An error ends the text and is kept.
class StreamBuffer final : public std::streambuf {
 public:
  explicit StreamBuffer(ByteStream& stream) : stream_(stream) {}

  const std::optional<Error>& error() const { return error_; }

 protected:
  int_type underflow() override {
    const Result<size_t> got = stream_.read(buffer_);
    if (!got) {
      error_ = got.error();
    }
    if (!got || *got == 0) {
      return traits_type::eof();
    }
    setg(buffer_.data(), buffer_.data(), buffer_.data() + *got);
    return traits_type::to_int_type(buffer_[0]);
  }

 private:
  ByteStream& stream_;
  std::array<char, 1 << 16> buffer_;
  std::optional<Error> error_;
};

// Events of a JSON parser to pieces. Depth 0 is outside everything; the lists of tokens are the
// arrays in an array that stands at depth 0 or behind the key "tokens" at depth 1.
class TokenLists final : public nlohmann::json_sax<Json> {
 public:
  TokenLists(const CorpusFile& file, const PieceSink& sink) : file_(file), sink_(sink) {}

  const std::optional<Error>& error() const { return error_; }
  bool found() const { return found_; }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a truth value"); }
  bool number_float(number_float_t number, const string_t&) override {
    return value(fmt::format("{}", number));
  }
  bool string(string_t&) override { return value("text"); }
  bool binary(binary_t&) override { return value("binary"); }
  bool number_integer(number_integer_t number) override { return value(fmt::format("{}", number)); }
  bool number_unsigned(number_unsigned_t number) override {
    if (!in_list()) {
      return value(fmt::format("{}", number));
    }
    if (number > INT32_MAX) {
      return refuse(fmt::format("{} is no token id", number));
    }
    ids_.push_back(static_cast<int32_t>(number));
    return ids_.size() < kIdsPerPiece || flush(false);
  }

  bool start_object(size_t) override {
    if (in_outer() || in_list()) {
      return value("an object");
    }
    if (depth_ == 1 && wanted_next_) {
      return refuse("expected a list of lists of token ids, found an object");
    }
    return enter();
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      wanted_next_ = name == "tokens";
      if (wanted_next_ && found_) {
        return refuse("the key \"tokens\" stands twice in one object");
      }
    }
    return true;
  }
  bool start_array(size_t) override {
    if (in_list()) {
      return value("a list");
    }
    if (outer_depth_ == 0 && (depth_ == 0 || (depth_ == 1 && wanted_next_))) {
      outer_depth_ = depth_ + 1;
      found_ = true;
      wanted_next_ = false;
    }
    return enter();
  }
  bool end_array() override {
    if (in_list()) {
      if (!flush(true)) {
        return false;
      }
      ++document_;
      first_token_ = 0;
    } else if (in_outer()) {
      outer_depth_ = 0;
    }
    --depth_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line L, column C: WHAT"
    const std::string_view what = error.what();
    const size_t at = what.find("at line ");
    error_ = input_error(file_.path.string(), ": no valid JSON ",
                         at == std::string_view::npos ? what : what.substr(at));
    return false;
  }

 private:
  bool in_outer() const { return outer_depth_ != 0 && depth_ == outer_depth_; }
  bool in_list() const { return outer_depth_ != 0 && depth_ == outer_depth_ + 1; }

  bool enter() {
    ++depth_;
    return depth_ <= kDepthMax || refuse(fmt::format("nested more than {} deep", kDepthMax));
  }

  // Anything that is no token id: allowed only where nobody looks.
  bool value(const std::string& what) {
    if (in_list()) {
      error_ = input_error(fmt::format("{}: tokens[{}][{}]: expected a token id, found {}",
                                       file_.path.string(), document_,
                                       first_token_ + static_cast<int64_t>(ids_.size()), what));
      return false;
    }
    if (in_outer()) {
      return refuse(
          fmt::format("tokens[{}]: expected a list of token ids, found {}", document_, what));
    }
    if (depth_ == 0 || wanted_next_) {
      return refuse(fmt::format("expected lists of token ids, found {}", what));
    }
    return true;
  }

  bool refuse(const std::string& what) {
    error_ = input_error(file_.path.string(), ": ", what);
    return false;
  }

  bool flush(bool ends_document) {
    const auto count = static_cast<int64_t>(ids_.size());
    const Status taken = sink_({.kind = Piece::Kind::kIds,
                                .ids = std::exchange(ids_, {}),
                                .document = document_,
                                .first_token = first_token_,
                                .ends_document = ends_document});
    first_token_ += count;
    if (!taken) {
      error_ = taken.error();
    }
    return taken.ok();
  }

  const CorpusFile& file_;
  const PieceSink& sink_;
  std::optional<Error> error_;
  std::vector<int32_t> ids_;
  int depth_ = 0;
  int outer_depth_ = 0;  // 0: not inside the outer list
  bool wanted_next_ = false;
  bool found_ = false;
  int64_t document_ = 0;
  int64_t first_token_ = 0;
};

// Cuts what is read into documents and pieces.
class RawTokens {
 public:
  RawTokens(std::optional<int32_t> eos, const PieceSink& sink) : eos_(eos), sink_(sink) {}

  Status add(int32_t id) {
    ids_.push_back(id);
    const bool ends = eos_ && id == *eos_;
    return ends || ids_.size() == kIdsPerPiece ? flush(ends) : Status();
  }

  Status finish() { return ids_.empty() && !open_ ? Status() : flush(true); }

  int64_t count() const { return first_token_ + static_cast<int64_t>(ids_.size()); }

 private:
  Status flush(bool ends_document) {
    const auto count = static_cast<int64_t>(ids_.size());
    const Status taken = sink_({.kind = Piece::Kind::kIds,
                                .ids = std::exchange(ids_, {}),
                                .document = document_,
                                .first_token = first_token_,
                                .ends_document = ends_document});
    first_token_ += count;
    document_ += ends_document ? 1 : 0;
    open_ = !ends_document;
    return taken;
  }

  std::optional<int32_t> eos_;
  const PieceSink& sink_;
  std::vector<int32_t> ids_;
  int64_t document_ = 0;
  int64_t first_token_ = 0;
  bool open_ = false;  // a part of the document was given away
};

}  // namespace

Status read_token_lists(const CorpusFile& file, const PieceSink& sink) {
  const Result<std::unique_ptr<ByteStream>> stream = open_byte_stream(file.path);
  if (!stream) {
    return stream.error();
  }
  StreamBuffer buffer(**stream);
  std::istream text(&buffer);
  TokenLists lists(file, sink);
  const bool parsed = Json::sax_parse(text, &lists);
  if (buffer.error()) {
    return *buffer.error();
  }
  if (!parsed) {
    CADRE_CHECK(lists.error().has_value(), "the parser stopped without a reason");
    return *lists.error();
  }
  if (!lists.found()) {
    return input_error(file.path.string(),
                       ": expected lists of token ids, [[...], ...] or {\"tokens\": [[...], ...]}");
  }
  return {};
}

Status read_raw_tokens(const CorpusFile& file, std::optional<int32_t> eos, const PieceSink& sink) {
  const Result<std::unique_ptr<ByteStream>> stream = open_byte_stream(file.path);
  if (!stream) {
    return stream.error();
  }
  const size_t width = file.format == SourceFormat::kTokensU16 ? 2 : 4;
  RawTokens tokens(eos, sink);
  std::array<char, 1 << 16> buffer;
  size_t held = 0;  // bytes of a number that is not complete
  for (;;) {
    const Result<size_t> got = (*stream)->read(std::span(buffer).subspan(held));
    if (!got) {
      return got.error();
    }
    if (*got == 0) {
      break;
    }
    const size_t bytes = held + *got;
    for (size_t at = 0; at + width <= bytes; at += width) {
      uint32_t id = 0;
      std::memcpy(&id, buffer.data() + at, width);
      if (id > INT32_MAX) {
        return input_error(file.path.string(), ": token ", tokens.count(), ": ", id,
                           " is no token id");
      }
      if (const Status taken = tokens.add(static_cast<int32_t>(id)); !taken) {
        return taken;
      }
    }
    held = bytes % width;
    std::memmove(buffer.data(), buffer.data() + (bytes - held), held);
  }
  if (held != 0) {
    return input_error(file.path.string(), ": ",
                       tokens.count() * static_cast<int64_t>(width) + static_cast<int64_t>(held),
                       " bytes are no multiple of the ", width,
                       " bytes of a token; is the format right?");
  }
  return tokens.finish();
}

}  // namespace cadre::data
