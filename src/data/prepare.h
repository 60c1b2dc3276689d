// Preparation: the files of a source to token shards in the cache, once.
//
// The cache has one folder a source and state: NAME-KEY, the key being a checksum over everything
// that decides the bytes of the shards (the list of files with sizes and times, the tokenizer, the
// options). What is there and complete is reused; what is damaged is said and built again. A folder
// appears by one rename, and a lock lets one process at a time build it: others wait and reuse.
// Memory stays at a few MiB a thread however large the corpus; the bytes do not depend on the
// number of threads. Folders of earlier states stay until somebody deletes them, which is always
// safe.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/corpus.h"
#include "data/dataset.h"
#include "data/token_shard.h"
#include "spec/data.h"

namespace cadre::data {

struct PrepareOptions {
  DatasetOptions dataset = {};
  bool append_eos =
      true;  // to documents of text that do not end with it; token files stay as they are
  std::filesystem::path cache_directory = {};
  int64_t shard_tokens = int64_t{1} << 28;
  // Shards of more bytes than this in all are reused on the word of their headers and indexes;
  // below it all tokens are compared with their checksums, too.
  int64_t verified_bytes_max = int64_t{4} << 30;
};

struct PreparedSource {
  SourceReport report = {};
  std::vector<TokenShard> shards = {};
};

Result<PreparedSource> prepare_source(const SourceSpec& spec, const PrepareOptions& options);

}  // namespace cadre::data
