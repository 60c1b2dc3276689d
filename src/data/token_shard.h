// Token shards: tokenized documents on disk, mapped into memory. docs/token-shards.md specifies the
// file byte by byte.
//
// A shard holds whole documents: their tokens one after the other, 2 or 4 bytes each, then an index
// with the end, the content hash and the size of the text of every document.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "storage/checksum.h"
#include "storage/mapped_file.h"
#include "storage/safe_writer.h"

namespace cadre::data {

// An entry of the index, as it lies in the file.
struct DocumentEntry {
  uint64_t end = 0;   // number of tokens of the shard up to the document's end
  uint64_t hash = 0;  // checksum (storage/checksum.h) of its ids as 32-bit little-endian words
  uint64_t text_bytes = 0;  // of the text before tokenizing; 0 if it came as tokens

  bool operator==(const DocumentEntry&) const = default;
};

class TokenShard {
 public:
  enum class Verify { kIndex, kEverything };  // what is read whole and compared with its checksum

  // Refuses what is truncated, damaged or of another version.
  static Result<TokenShard> open(const std::filesystem::path& path, Verify verify);

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  int64_t tokens() const { return tokens_; }
  int64_t largest_id() const { return largest_id_; }
  uint64_t checksum() const { return checksum_; }  // of the header, which has those of the rest
  std::span<const DocumentEntry> documents() const { return documents_; }

  // Calls body(number, entry, tokens) for all documents in order, and gives the pages back
  // meanwhile: the index of a large corpus may not fit into memory.
  template <typename Body>
  void visit_documents(const Body& body) const {
    constexpr size_t kDocumentsPerRelease = 65536;
    uint64_t begin = 0;
    for (size_t document = 0; document < documents_.size(); ++document) {
      const DocumentEntry entry = documents_[document];
      body(document, entry, static_cast<int64_t>(entry.end - begin));
      begin = entry.end;
      if ((document + 1) % kDocumentsPerRelease == 0) {
        release_pages();
      }
    }
    release_pages();
  }

  // Tokens [first, first + out.size()).
  void read(std::span<int32_t> out, int64_t first) const;

  // Takes the file's pages out of this process's resident memory; they come back when touched.
  void release_pages() const;

 private:
  TokenShard() = default;
  uint64_t checksum_in_steps(std::span<const std::byte> bytes) const;

  std::filesystem::path path_;
  MappedFile file_;
  int64_t tokens_ = 0;
  int64_t largest_id_ = 0;
  uint64_t checksum_ = 0;
  int64_t token_bytes_ = 0;
  std::span<const std::byte> token_data_;
  std::span<const DocumentEntry> documents_;
};

// Writes the shards of one source into a folder that is not published yet.
class ShardWriter {
 public:
  struct Options {
    int64_t token_bytes = 2;  // 2 or 4
    // A shard that has so many gets no further document. (Its index is in memory until then.)
    int64_t shard_tokens = int64_t{1} << 28;
    int64_t shard_documents = int64_t{1} << 20;
  };
  ShardWriter(std::filesystem::path folder, const Options& options);

  // Continues the current document. Every id fits the width.
  Status append(std::span<const int32_t> ids);
  // A document without tokens leaves no trace.
  Status end_document(int64_t text_bytes);
  // Call once, after the last document.
  Status finish();

  // So far, over all shards.
  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }
  int64_t shards() const { return shards_; }

 private:
  Status begin_shard();
  Status end_shard();

  std::filesystem::path folder_;
  Options options_;
  std::optional<FileWriter> file_;  // of the shard that is being written
  PageBuffer buffer_;
  std::vector<DocumentEntry> entries_;
  Checksum token_checksum_;
  Checksum document_checksum_;
  uint64_t shard_tokens_ = 0;
  uint64_t document_tokens_ = 0;
  uint64_t largest_id_ = 0;
  std::vector<uint16_t> narrow_;
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
  int64_t shards_ = 0;
};

// "shard-00042.tokens"
std::string shard_name(int64_t number);

}  // namespace cadre::data
