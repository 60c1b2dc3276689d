// What a Tokenizer consists of; private to tokenizer*.cpp.

#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/post_processor.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_index.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {

// What one call of encode() needs; handed from call to call, so that words stay cached.
struct EncodeScratch {
  struct Step {
    RegexScratch regex;
    PieceBatch batch;
    std::string rewritten;
  };
  std::string valid;  // the text, if it was not valid UTF-8
  std::string normalized;
  std::vector<Step> steps;  // of the pre-tokenizer
  BpeScratch bpe;
};

class ScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_unique<EncodeScratch>();
    }
    std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give(std::unique_ptr<EncodeScratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

// Added tokens as they are looked for: special ones too, or only the others.
struct AddedTokenMatchers {
  AddedTokenMatcher all;
  AddedTokenMatcher not_special;

  const AddedTokenMatcher& of(bool parse_special) const {
    return parse_special ? all : not_special;
  }
};

struct Tokenizer::Parts {
  TokenizerFile file;
  int64_t vocab_size = 0;
  TokenIndex by_name;            // views file
  std::vector<bool> is_special;  // by id
  Normalizer normalizer;
  AddedTokenMatchers before_normalizing;
  AddedTokenMatchers after_normalizing;
  PreTokenizer pre_tokenizer;
  std::vector<std::string> token_bytes;  // by id, of a byte-level vocabulary
  std::optional<Bpe> bpe;                // views file or token_bytes
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<int32_t> bos_id;
  std::vector<int32_t> eos_ids;
  mutable ScratchPool pool;

  // Fills everything from `file`.
  Status build();

  std::optional<int32_t> id_of(std::string_view token) const {
    const int32_t id = by_name.find(token);
    return id == TokenIndex::kNone ? std::nullopt : std::optional<int32_t>(id);
  }

 private:
  Status index_tokens();
  void make_matchers();
  void make_bpe();
  void read_config();
};

}  // namespace cadre::data
