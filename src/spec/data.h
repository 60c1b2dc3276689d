// DataSpec: what a run reads, as plain data.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cadre {

enum class SourceFormat { kAuto, kText, kJsonl, kTokensJson, kTokensU16, kTokensU32 };
enum class Packing {
  kConcat,  // a plain stream: a sequence may hold the end of one document and the start of the next
  kDocument,  // as kConcat, but attention and positions do not cross the start of a document
};

struct SourceSpec {
  std::string name = {};                      // for messages; the first path if not given
  std::vector<std::string> paths = {};        // files, directories and globs; absolute once read
  std::vector<std::string> exclude = {};      // globs on the path
  SourceFormat format = SourceFormat::kAuto;  // auto: by suffix, .gz and .zst looked through
  std::string field = "text";                 // of a JSONL object
  double weight = 1.0;                        // share of the samples, relative to the other sources

  bool operator==(const SourceSpec&) const = default;
};

struct DataSpec {
  std::vector<SourceSpec> sources = {};
  std::vector<SourceSpec> validation =
      {};  // empty: `validation_fraction` of the documents of `sources`
  double validation_fraction = 0.01;
  int64_t sequence_length = 256;
  Packing packing = Packing::kConcat;
  bool shuffle = true;
  bool append_eos = true;  // after every document, so that the model learns where one ends
  std::string cache_directory = ".cache/cadre";

  bool operator==(const DataSpec&) const = default;
};

}  // namespace cadre
