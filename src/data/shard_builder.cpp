#include "data/shard_builder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace cadre::data {
namespace {

constexpr int64_t kBatchBytesPerThread = int64_t{4} << 20;

// In memory; short documents are mostly what is around them.
int64_t bytes_of(const Piece& piece) {
  constexpr size_t kAround = 256;
  return static_cast<int64_t>(piece.text.size() + piece.ids.size() * sizeof(int32_t) + kAround);
}

}  // namespace

int64_t token_bytes_for(int64_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}

ShardBuilder::ShardBuilder(const std::filesystem::path& folder, const SourceSpec& spec,
                           const PrepareOptions& options)
    : spec_(spec),
      options_(options),
      writer_(folder, {.token_bytes = token_bytes_for(options.dataset.vocab_size),
                       .shard_tokens = options.shard_tokens}) {}

Status ShardBuilder::add(const CorpusFile& file) {
  const PieceSink sink = [&](Piece&& piece) { return take(file, std::move(piece)); };
  return read_pieces(file, {.eos = options_.dataset.encoder.eos}, sink);
}

Status ShardBuilder::take(const CorpusFile& file, Piece&& piece) {
  if (const Status stopped = stop_status(options_.dataset.stop); !stopped) {
    return stopped;
  }
  batch_bytes_ += bytes_of(piece);
  batch_.push_back({.piece = std::move(piece), .file = &file});
  const ThreadPool* pool = options_.dataset.pool;
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  return batch_bytes_ < threads * kBatchBytesPerThread ? Status() : flush();
}

Status ShardBuilder::flush() {
  const auto body = [this](int64_t tile, int) { encode(batch_[static_cast<size_t>(tile)]); };
  const auto tiles = static_cast<int64_t>(batch_.size());
  if (options_.dataset.pool != nullptr) {
    options_.dataset.pool->run(tiles, body);
  } else {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      body(tile, 0);
    }
  }
  // In the order of the files, whoever encoded what.
  for (Work& work : batch_) {
    if (const Status written = write(work); !written) {
      return written;
    }
  }
  batch_.clear();
  batch_bytes_ = 0;
  return {};
}

void ShardBuilder::encode(Work& work) const {
  Piece& piece = work.piece;
  if (piece.kind == Piece::Kind::kIds) {
    work.ids = std::move(piece.ids);
  } else {
    std::string text = std::move(piece.text);
    if (piece.kind == Piece::Kind::kJsonLine) {
      piece.text = std::move(text);
      Result<std::string> found = text_of_line(piece, *work.file, spec_.field);
      if (!found) {
        work.error = found.error();
        return;
      }
      piece.text.clear();
      text = std::move(*found);
    }
    work.text_bytes = static_cast<int64_t>(text.size());
    options_.dataset.encoder.encode(work.ids, text, !piece.begins_document);
  }
  check_ids(work);
}

void ShardBuilder::check_ids(Work& work) const {
  const int64_t vocab_size = options_.dataset.vocab_size;
  const auto bad = std::ranges::find_if(
      work.ids, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
  if (bad == work.ids.end()) {
    return;
  }
  const std::string place = place_of(work.piece, *work.file, bad - work.ids.begin());
  work.error = input_error(
      place,
      work.piece.kind == Piece::Kind::kIds ? ": token id " : ": the tokenizer made token id ", *bad,
      ", but ids of this model are below vocab_size ", vocab_size);
}

Status ShardBuilder::write(Work& work) {
  if (work.error) {
    return *work.error;
  }
  document_text_bytes_ += work.text_bytes;
  document_tokens_ += static_cast<int64_t>(work.ids.size());
  last_id_ = work.ids.empty() ? last_id_ : work.ids.back();
  const bool is_text = work.piece.kind != Piece::Kind::kIds;
  const std::optional<int32_t> eos = options_.dataset.encoder.eos;
  if (work.piece.ends_document && is_text && options_.append_eos && document_tokens_ > 0 &&
      last_id_ != eos) {
    CADRE_CHECK(eos.has_value(), "append_eos without an eos");
    work.ids.push_back(*eos);
  }
  if (const Status appended = writer_.append(work.ids); !appended) {
    return appended;
  }
  if (!work.piece.ends_document) {
    return {};
  }
  last_id_ = -1;
  document_tokens_ = 0;
  return writer_.end_document(std::exchange(document_text_bytes_, 0));
}

Status ShardBuilder::finish() {
  const Status flushed = flush();
  return flushed ? writer_.finish() : flushed;
}

}  // namespace cadre::data
