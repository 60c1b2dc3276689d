// What the tests of this folder share: files to read, and a tokenizer that can be read by eye.

#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/dataset.h"
#include "data/encoder.h"
#include "data/loader.h"
#include "data/prepare.h"
#include "data/token_shard.h"
#include "storage/file.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre::data::testing {

using cadre::testing::TemporaryFolder;

inline constexpr int32_t kEos = 256;
inline constexpr int64_t kVocabSize = 257;

// A token is a byte; EOS is 256.
inline TextEncoder byte_encoder() {
  return {.encode =
              [](std::vector<int32_t>& ids, std::string_view text, bool) {
                for (const char c : text) {
                  ids.push_back(static_cast<unsigned char>(c));
                }
              },
          .hash = 17,
          .eos = kEos};
}

inline std::string put(const TemporaryFolder& folder, const std::string& name,
                       std::string_view text) {
  const std::filesystem::path path = folder / name;
  CADRE_CHECK(make_folder(path.parent_path()).ok(), name);
  std::ofstream file(path, std::ios::binary);  // not made durable: tests write many
  file << text;
  file.close();
  CADRE_CHECK(file.good(), name);
  return path.string();
}

inline std::string gzipped(std::string_view text) {
  z_stream stream = {};
  CADRE_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CADRE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstandard(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// All tokens of the shards, and the content of each document.
inline std::vector<int32_t> all_tokens(std::span<const TokenShard> shards) {
  std::vector<int32_t> tokens;
  for (const TokenShard& shard : shards) {
    const size_t before = tokens.size();
    tokens.resize(before + static_cast<size_t>(shard.tokens()));
    shard.read(std::span(tokens).subspan(before), 0);
  }
  return tokens;
}

inline std::vector<std::vector<int32_t>> all_documents(std::span<const TokenShard> shards) {
  std::vector<std::vector<int32_t>> documents;
  for (const TokenShard& shard : shards) {
    uint64_t begin = 0;
    for (const DocumentEntry& entry : shard.documents()) {
      documents.emplace_back(entry.end - begin);
      shard.read(documents.back(), static_cast<int64_t>(begin));
      begin = entry.end;
    }
  }
  return documents;
}

inline std::vector<int32_t> bytes_then_eos(std::string_view text) {
  std::vector<int32_t> ids;
  byte_encoder().encode(ids, text, false);
  ids.push_back(kEos);
  return ids;
}

// Shards of documents that are given as tokens.
inline std::vector<TokenShard> make_shards(const std::filesystem::path& folder,
                                           const std::vector<std::vector<int32_t>>& documents,
                                           int64_t token_bytes, int64_t shard_tokens) {
  CADRE_CHECK(make_folder(folder).ok());
  ShardWriter writer(folder, {.token_bytes = token_bytes, .shard_tokens = shard_tokens});
  for (const auto& document : documents) {
    CADRE_CHECK(writer.append(document).ok());
    CADRE_CHECK(writer.end_document(static_cast<int64_t>(3 * document.size())).ok());
  }
  CADRE_CHECK(writer.finish().ok());
  std::vector<TokenShard> shards;
  for (int64_t number = 0; number < writer.shards(); ++number) {
    auto shard = TokenShard::open(folder / shard_name(number), TokenShard::Verify::kEverything);
    CADRE_CHECK(shard.ok(), shard.ok() ? "" : shard.error().message);
    shards.push_back(std::move(*shard));
  }
  return shards;
}

// A batch with memory of its own.
struct OwnedBatch {
  OwnedBatch(int64_t rows, int64_t length)
      : tokens(static_cast<size_t>(rows * length), -1),
        targets(tokens),
        positions(tokens),
        starts(tokens),
        ids(static_cast<size_t>(rows)) {}

  Batch view() { return {tokens, targets, positions, starts, ids}; }
  bool operator==(const OwnedBatch&) const = default;

  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  std::vector<int32_t> positions;
  std::vector<int32_t> starts;
  std::vector<SampleId> ids;
};

inline OwnedBatch filled(SampleStream& stream, int64_t first, int64_t rows) {
  OwnedBatch batch(rows, stream.sequence_length());
  stream.fill(first, batch.view());
  return batch;
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "no error" : result.error().message;
}

}  // namespace cadre::data::testing
