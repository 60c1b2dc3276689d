// Documents of a corpus file, in pieces of bounded size, in the order of the file.
//
// A document is a whole file of text, a line of JSONL, an inner list of a token list, and in a raw
// token file what lies between two EOS tokens (the whole file if no EOS is known).

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/corpus.h"
#include "data/tokenizer/trainer.h"
#include "spec/data.h"

namespace cadre::data {

// A document or a part of one. A long text is cut after about a mebibyte between an ASCII letter
// and the end of its line: no pre-tokenizer's word and no byte-level token crosses that place, so
// the ids of the parts are the ids of the whole. (A text without such a place is cut after 16 MiB
// anywhere between two characters.)
struct Piece {
  enum class Kind { kText, kJsonLine, kIds };
  Kind kind = Kind::kText;
  std::string text = {};          // kText, kJsonLine: a line of JSON that is not parsed yet
  std::vector<int32_t> ids = {};  // kIds
  int64_t line = 0;               // kJsonLine: its number from 1
  int64_t document = 0;           // kIds: its number in the file from 0
  int64_t first_token = 0;        // kIds: number of ids[0] in its list, or in its raw file
  bool begins_document = true;    // kText
  bool ends_document = true;
};

// Gives its pieces to `sink` until that refuses. Refuses what the file's format does not allow,
// with the place; whether ids are below the vocabulary's size is not known here.
using PieceSink = std::function<Status(Piece&& piece)>;
struct ReadOptions {
  std::optional<int32_t> eos = std::nullopt;  // cuts raw token files
};
Status read_pieces(const CorpusFile& file, const ReadOptions& options, const PieceSink& sink);

// The text behind the source's field of a JSONL line; refuses, with file and line, what is not JSON
// or does not have it.
Result<std::string> text_of_line(const Piece& piece, const CorpusFile& file,
                                 const std::string& field);

// "FILE:LINE", "FILE: tokens[2][17]", "FILE: token 17": where element `offset` of `piece` stands.
std::string place_of(const Piece& piece, const CorpusFile& file, int64_t offset);

// All text of the sources, for training a tokenizer. Token files have none and are refused.
Result<TextSource> text_of(std::span<const SourceSpec> sources);

}  // namespace cadre::data
