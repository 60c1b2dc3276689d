// Corpus: the files that a SourceSpec names.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/data.h"

namespace cadre::data {

struct CorpusFile {
  std::filesystem::path path = {};
  SourceFormat format = SourceFormat::kText;  // never kAuto
  bool guessed = false;                       // the format, because no suffix told it
  int64_t bytes = 0;                          // as stored, compressed or not
  // When the content was last written, and when anything about the file last changed: nanoseconds
  // since 1970. The second also tells of a file put back under its old time.
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const CorpusFile&) const = default;
};

// The files of `spec`, each once: path after path as the spec lists them, what a directory or a
// glob yields sorted by name, byte by byte.
//
// A directory stands for all regular files in it and below it. A glob knows `*` and `?` within a
// name and `**` for any number of folders. Names that begin with a dot are passed over unless they
// are written out. `exclude` holds globs of whole paths or of names; there `*` crosses folders,
// too.
//
// Formats by suffix, behind .gz and .zst: .jsonl and .ndjson; .json (lists of tokens); .u16 and
// .u32 (raw tokens); .bin is refused, since it does not tell the width; all others are text.
Result<std::vector<CorpusFile>> list_corpus(const SourceSpec& spec);

// Path, format, size and times: a line (it ends with one) that changes when the content may have.
std::string state_of(const CorpusFile& file);

// The spec's name, or its first path.
std::string name_of(const SourceSpec& spec);

}  // namespace cadre::data
