// ShardBuilder: pieces of documents to token shards, tokenized in parallel.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/corpus.h"
#include "data/documents.h"
#include "data/prepare.h"
#include "data/token_shard.h"

namespace cadre::data {

class ShardBuilder {
 public:
  // Writes into `folder`, which exists. `spec` and `options` outlive the builder.
  ShardBuilder(const std::filesystem::path& folder, const SourceSpec& spec,
               const PrepareOptions& options);

  // Reads all of `file`, which outlives the builder, after the files added before.
  Status add(const CorpusFile& file);
  Status finish();

  int64_t tokens() const { return writer_.tokens(); }
  int64_t documents() const { return writer_.documents(); }
  int64_t shards() const { return writer_.shards(); }

 private:
  struct Work {
    Piece piece = {};
    const CorpusFile* file = nullptr;
    std::vector<int32_t> ids = {};
    int64_t text_bytes = 0;
    std::optional<Error> error = std::nullopt;
  };

  Status take(const CorpusFile& file, Piece&& piece);
  Status flush();
  void encode(Work& work) const;
  void check_ids(Work& work) const;
  Status write(Work& work);

  const SourceSpec& spec_;
  const PrepareOptions& options_;
  ShardWriter writer_;
  std::vector<Work> batch_;
  int64_t batch_bytes_ = 0;
  int64_t document_text_bytes_ = 0;  // of the document that is being written
  int64_t document_tokens_ = 0;
  int32_t last_id_ = -1;
};

// Bytes of one token where ids are below `vocab_size`.
int64_t token_bytes_for(int64_t vocab_size);

}  // namespace cadre::data
