#include "data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "data/json_field.h"
#include "data/token_file.h"
#include "storage/byte_stream.h"

namespace cadre::data {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kPieceBytesMax = size_t{16} << 20;
constexpr int64_t kLineBytesMax = int64_t{256} << 20;
constexpr size_t kBinaryProbeBytes = size_t{8} << 10;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Where `text` may be cut, the later the better: see Piece. 0: nowhere.
size_t find_cut(std::string_view text) {
  for (size_t i = text.size(); i-- > 1;) {
    if ((text[i] == '\n' || text[i] == '\r') && is_letter(text[i - 1])) {
      return i;
    }
  }
  if (text.size() < kPieceBytesMax) {
    return 0;
  }
  size_t i = text.size() - 1;
  while (i > 1 && (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u) {
    --i;  // into a character's middle
  }
  return i;
}

// One file of text or JSONL.
class TextFile {
 public:
  static Result<std::unique_ptr<TextFile>> open(const CorpusFile& file) {
    Result<std::unique_ptr<ByteStream>> stream = open_byte_stream(file.path);
    if (!stream) {
      return stream.error();
    }
    return std::unique_ptr<TextFile>(new TextFile(file, std::move(*stream)));
  }

  // False after the last.
  Result<bool> next(Piece& piece) { return lines_ ? next_line(piece) : next_part(piece); }

 private:
  TextFile(const CorpusFile& file, std::unique_ptr<ByteStream> stream) : file_(file) {
    if (file.format == SourceFormat::kJsonl) {
      lines_.emplace(std::move(stream), file.path.string(),
                     LineReader::Options{.line_bytes_max = kLineBytesMax});
    } else {
      stream_ = std::move(stream);
    }
  }

  Result<bool> next_line(Piece& piece) {
    for (;;) {
      const auto line = lines_->next();
      if (!line) {
        return line.error();
      }
      if (!*line) {
        return false;
      }
      if ((*line)->find_first_not_of(" \t\r") != std::string_view::npos) {
        piece = {.kind = Piece::Kind::kJsonLine,
                 .text = std::string(**line),
                 .line = lines_->line_number()};
        return true;
      }
    }
  }

  Result<bool> next_part(Piece& piece) {
    if (at_end_) {
      return false;
    }
    size_t cut = 0;
    for (size_t wanted = kPieceBytes; cut == 0 && !at_end_; wanted = rest_.size() + kPieceBytes) {
      if (const Status status = read_up_to(wanted); !status) {
        return status.error();
      }
      cut = at_end_ ? 0 : find_cut(rest_);
    }
    piece = {.kind = Piece::Kind::kText, .begins_document = first_, .ends_document = at_end_};
    if (at_end_) {
      piece.text = std::string(rest_);  // no larger than it must be: many wait to be tokenized
      rest_.clear();
    } else {
      piece.text = rest_.substr(0, cut);
      rest_.erase(0, cut);
    }
    const bool looks_binary =
        first_ && file_.guessed &&
        std::string_view(piece.text).substr(0, kBinaryProbeBytes).find('\0') != std::string::npos;
    first_ = false;
    if (looks_binary) {
      return input_error(
          "data: \"", file_.path.string(),
          "\" holds zero bytes and looks like no text; exclude it, or set format: text");
    }
    return true;
  }

  Status read_up_to(size_t wanted) {
    while (rest_.size() < wanted && !at_end_) {
      const size_t before = rest_.size();
      rest_.resize(std::min(wanted, before + kReadBytes));  // most files are small
      const Result<size_t> got = stream_->read(std::span(rest_).subspan(before));
      if (!got) {
        return got.error();
      }
      rest_.resize(before + *got);
      at_end_ = *got == 0;
    }
    return {};
  }

  CorpusFile file_;
  std::unique_ptr<ByteStream> stream_;
  std::optional<LineReader> lines_;
  std::string rest_;  // read and not given away
  bool first_ = true;
  bool at_end_ = false;
};

Status read_text(const CorpusFile& file, const PieceSink& sink) {
  const auto text = TextFile::open(file);
  if (!text) {
    return text.error();
  }
  for (;;) {
    Piece piece;
    const Result<bool> more = (*text)->next(piece);
    if (!more) {
      return more.error();
    }
    if (!*more) {
      return {};
    }
    if (const Status taken = sink(std::move(piece)); !taken) {
      return taken;
    }
  }
}

std::string keys_of(const Json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", key);
    if (keys.size() > 200) {
      return keys + ", ...";
    }
  }
  return keys.empty() ? "none" : keys;
}

// What text_of() returns: walks through all files of all sources.
class TextWalk {
 public:
  void add(const SourceSpec& spec, std::vector<CorpusFile> files) {
    for (CorpusFile& file : files) {
      files_.push_back({std::move(file), spec.field});
    }
  }

  Result<bool> next(std::string& chunk) {
    for (;;) {
      if (!open_) {
        if (file_ == files_.size()) {
          return false;
        }
        auto opened = TextFile::open(files_[file_].file);
        if (!opened) {
          return opened.error();
        }
        open_ = std::move(*opened);
      }
      Piece piece;
      const Result<bool> more = open_->next(piece);
      if (!more) {
        return more.error();
      }
      if (*more) {
        return take(chunk, piece);
      }
      open_.reset();
      ++file_;
    }
  }

 private:
  struct File {
    CorpusFile file;
    std::string field;
  };

  Result<bool> take(std::string& chunk, Piece& piece) const {
    if (piece.kind == Piece::Kind::kJsonLine) {
      Result<std::string> text = text_of_line(piece, files_[file_].file, files_[file_].field);
      if (!text) {
        return text.error();
      }
      chunk = std::move(*text);
    } else {
      chunk = std::move(piece.text);
    }
    return true;
  }

  std::vector<File> files_;
  size_t file_ = 0;
  std::unique_ptr<TextFile> open_;
};

}  // namespace

Status read_pieces(const CorpusFile& file, const ReadOptions& options, const PieceSink& sink) {
  switch (file.format) {
    case SourceFormat::kText:
    case SourceFormat::kJsonl:
      return read_text(file, sink);
    case SourceFormat::kTokensJson:
      return read_token_lists(file, sink);
    case SourceFormat::kTokensU16:
    case SourceFormat::kTokensU32:
      return read_raw_tokens(file, options.eos, sink);
    case SourceFormat::kAuto:
      break;
  }
  CADRE_CHECK(false, "the format of ", file.path.string(), " was never chosen");
  return {};
}

Result<std::string> text_of_line(const Piece& piece, const CorpusFile& file,
                                 const std::string& field) {
  if (std::optional<std::string> found = find_text_field(piece.text, field)) {
    return std::move(*found);
  }
  Result<Json> json = parse_json(piece.text, file.path.string(), {.first_line = piece.line});
  if (!json) {
    return json.error();
  }
  const std::string place = place_of(piece, file, 0);
  if (!json->is_object()) {
    return input_error(place, ": expected an object with the field \"", field, "\", found ",
                       json->type_name());
  }
  const auto found = json->find(field);
  if (found == json->end()) {
    return input_error(place, ": the object has no field \"", field, "\"; its fields are ",
                       keys_of(*json), "; set the source's field");
  }
  if (!found->is_string()) {
    return input_error(place, ": the field \"", field, "\" is no text, found ", found->type_name());
  }
  return std::move(found->get_ref<std::string&>());  // where the quick look was too strict
}

std::string place_of(const Piece& piece, const CorpusFile& file, int64_t offset) {
  switch (piece.kind) {
    case Piece::Kind::kJsonLine:
      return fmt::format("{}:{}", file.path.string(), piece.line);
    case Piece::Kind::kIds:
      if (file.format == SourceFormat::kTokensJson) {
        return fmt::format("{}: tokens[{}][{}]", file.path.string(), piece.document,
                           piece.first_token + offset);
      }
      return fmt::format("{}: token {}", file.path.string(), piece.first_token + offset);
    case Piece::Kind::kText:
      break;
  }
  return file.path.string();
}

Result<TextSource> text_of(std::span<const SourceSpec> sources) {
  // Shared by the copies of the function that it becomes.
  const auto walk = std::make_shared<TextWalk>();
  for (const SourceSpec& spec : sources) {
    Result<std::vector<CorpusFile>> files = list_corpus(spec);
    if (!files) {
      return files.error();
    }
    for (const CorpusFile& file : *files) {
      if (file.format != SourceFormat::kText && file.format != SourceFormat::kJsonl) {
        return input_error("tokenizer: \"", file.path.string(),
                           "\" holds tokens, and a tokenizer is trained on text");
      }
    }
    walk->add(spec, std::move(*files));
  }
  return TextSource([walk](std::string& chunk) { return walk->next(chunk); });
}

}  // namespace cadre::data
