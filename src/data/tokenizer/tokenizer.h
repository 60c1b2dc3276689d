// Tokenizer: text to token ids and back, as a Hugging Face tokenizer.json says.
//
// Supported are models of type BPE: byte-level (GPT-2, Llama 3, Qwen, GPT-4o) and the Llama 2 kind
// (byte fallback, U+2581 for spaces). Ids equal those of the npm package @huggingface/tokenizers.
// A feature of tokenizer.json that is not supported is refused by name when it is loaded, so that
// ids are never silently different. All methods are const and may be called from several threads.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cadre::data {

struct TokenizerFile;

struct EncodeOptions {
  bool add_special_tokens = true;  // what the post-processor puts around the text, such as BOS
  // The text of a special token inside the input becomes that token. False: it is ordinary text.
  bool parse_special = true;
  // The text goes on where another ended: no space is put in front of it.
  bool continues = false;
};

struct DecodeOptions {
  bool skip_special = false;  // special tokens leave no trace in the text
};

class Tokenizer {
 public:
  // `path` names a tokenizer.json or a directory that holds one. From the directory also come
  // tokenizer_config.json and config.json, where present, for BOS and EOS.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& path);

  // The same from text in memory; `source` names it in messages. `config` is the text of a
  // tokenizer_config.json, or empty.
  static Result<std::unique_ptr<Tokenizer>> parse(std::string_view json, std::string_view source,
                                                  std::string_view config = {});

  // From parts that were made, not read (by the trainer, by tests).
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerFile file);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `text` is shorter than 4 GiB. Invalid UTF-8 in it is read as U+FFFD, one for each maximal
  // subpart (as the WHATWG decoder).
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Adds the ids of `text` to the end of `ids`; the fast form for many texts.
  void encode_append(std::string_view text, const EncodeOptions& options,
                     std::vector<int32_t>& ids) const;

  // Bytes that are not valid UTF-8 become U+FFFD. Ids without a token become U+FFFD too.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // Decodes token by token, for generation: only whole characters come out, the bytes of a
  // character that is not complete yet are held back. All pieces together equal decode() of all
  // ids.
  class Stream {
   public:
    // `tokenizer` outlives the stream.
    Stream(const Tokenizer& tokenizer, const DecodeOptions& options)
        : tokenizer_(tokenizer), options_(options) {}

    std::string push(int32_t id);  // the text that has become certain
    std::string finish();          // what was held back: U+FFFD for an incomplete character

   private:
    friend class Tokenizer;
    void push_to(int32_t id, std::string& text);
    void release_to(std::string& text);
    void flush_to(std::string& text);
    void append(std::string_view piece, std::string& text);

    const Tokenizer& tokenizer_;
    DecodeOptions options_;
    std::string held_;      // bytes of an incomplete character
    bool at_start_ = true;  // nothing has come out yet
    int64_t stripped_ = 0;  // characters that were dropped from the front
    int64_t tokens_ = 0;
  };

  int64_t vocab_size() const;  // largest id + 1: how many rows an embedding needs
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;                     // the first of eos_ids()
  const std::vector<int32_t>& eos_ids() const;               // config.json may name several
  std::optional<std::string> token_of_id(int32_t id) const;  // as tokenizer.json spells it
  bool is_special(int32_t id) const;

  // Changes when anything changes that decides ids; equal on every machine.
  uint64_t fingerprint() const;

  // Writes DIRECTORY/tokenizer.json and DIRECTORY/tokenizer_config.json as Hugging Face reads them.
  // A path that ends in ".json" names the tokenizer.json itself and is the only file written.
  Status save(const std::string& path) const;

  struct Parts;  // private to the implementation

 private:
  explicit Tokenizer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace cadre::data
