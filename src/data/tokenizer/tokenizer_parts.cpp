#include "data/tokenizer/tokenizer_parts.h"

#include <algorithm>
#include <utility>

#include "data/tokenizer/json_members.h"
#include "data/tokenizer/splitters.h"

namespace cadre::data {
namespace {

constexpr int64_t kUnusedIdsMax = 65536;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // what Llama 2 writes for a space

}  // namespace

Status Tokenizer::Parts::build() {
  if (Status status = index_tokens(); !status) {
    return status;
  }
  Result<Normalizer> read_normalizer = Normalizer::parse(file.normalizer);
  if (!read_normalizer) {
    return read_normalizer.error();
  }
  normalizer = std::move(*read_normalizer);
  Result<PreTokenizer> read_pre_tokenizer = PreTokenizer::parse(file.pre_tokenizer);
  if (!read_pre_tokenizer) {
    return read_pre_tokenizer.error();
  }
  pre_tokenizer = std::move(*read_pre_tokenizer);
  Result<PostProcessor> read_post_processor = PostProcessor::parse(
      file.post_processor, [this](std::string_view token) { return id_of(token); });
  if (!read_post_processor) {
    return read_post_processor.error();
  }
  post_processor = std::move(*read_post_processor);
  Result<Decoder> read_decoder = Decoder::parse(file, vocab_size);
  if (!read_decoder) {
    return read_decoder.error();
  }
  decoder = std::move(*read_decoder);
  if (file.unk_token && !id_of(*file.unk_token)) {
    return input_error("model.unk_token \"", *file.unk_token, "\" is not in the vocabulary");
  }
  make_matchers();
  make_bpe();
  read_config();
  return {};
}

Status Tokenizer::Parts::index_tokens() {
  by_name = TokenIndex(file.vocab.size() + file.added_tokens.size());
  for (size_t id = 0; id < file.vocab.size(); ++id) {
    if (file.vocab[id] && !by_name.insert(*file.vocab[id], static_cast<int32_t>(id))) {
      return input_error("the vocabulary has the token \"", *file.vocab[id], "\" twice");
    }
  }
  const auto ids_max =
      static_cast<int64_t>(file.vocab.size() + file.added_tokens.size()) + kUnusedIdsMax;
  vocab_size = static_cast<int64_t>(file.vocab.size());
  for (const AddedToken& token : file.added_tokens) {
    if (token.id >= ids_max) {
      return input_error("the added token \"", token.content, "\" has the id ", token.id,
                         ", far beyond the ", ids_max - kUnusedIdsMax, " tokens there are");
    }
    vocab_size = std::max<int64_t>(vocab_size, token.id + 1);
  }
  is_special.assign(static_cast<size_t>(vocab_size), false);
  std::vector<const AddedToken*> owners(static_cast<size_t>(vocab_size), nullptr);
  for (const AddedToken& token : file.added_tokens) {
    const auto place = static_cast<size_t>(token.id);
    const bool in_vocab = place < file.vocab.size() && file.vocab[place].has_value();
    if (owners[place] != nullptr || (in_vocab && *file.vocab[place] != token.content)) {
      return input_error(
          "the added token \"", token.content, "\" has the id ", token.id, ", which is that of \"",
          owners[place] != nullptr ? owners[place]->content : *file.vocab[place], "\"");
    }
    if (!in_vocab && !by_name.insert(token.content, token.id)) {
      return input_error("the added token \"", token.content, "\" has the id ", token.id,
                         ", but also ", by_name.find(token.content));
    }
    owners[place] = &token;
    is_special[place] = token.special;
  }
  return {};
}

void Tokenizer::Parts::make_matchers() {
  using Entries = std::vector<AddedTokenMatcher::Entry>;
  std::array<Entries, 2> before;  // all, and those that are not special
  std::array<Entries, 2> after;
  std::string storage;
  for (const AddedToken& token : file.added_tokens) {
    const bool normalizes = token.normalized && !file.normalizer.is_null();
    std::string content(normalizes ? normalizer.apply(token.content, storage) : token.content);
    std::array<Entries, 2>& lists = normalizes ? after : before;
    const auto same = [&content](const AddedTokenMatcher::Entry& entry) {
      return entry.content == content;
    };
    // Two contents may become one by normalizing; the later one counts.
    for (size_t list = 0; list < 2; ++list) {
      if (normalizes) {
        std::erase_if(lists[list], same);
      }
      if (!content.empty() && (list == 0 || !token.special)) {
        lists[list].push_back({content, &token});
      }
    }
  }
  before_normalizing = {AddedTokenMatcher(before[0]), AddedTokenMatcher(before[1])};
  after_normalizing = {AddedTokenMatcher(after[0]), AddedTokenMatcher(after[1])};
}

void Tokenizer::Parts::make_bpe() {
  std::vector<std::optional<std::string_view>> tokens(file.vocab.size());
  token_bytes.resize(pre_tokenizer.byte_level ? file.vocab.size() : 0);
  for (size_t id = 0; id < file.vocab.size(); ++id) {
    if (!file.vocab[id]) {
      continue;
    }
    if (!pre_tokenizer.byte_level) {
      tokens[id] = *file.vocab[id];
    } else if (bytes_of_spelling(*file.vocab[id], token_bytes[id])) {
      tokens[id] = token_bytes[id];
    }
  }
  bpe.emplace(
      std::move(tokens), file.merges,
      BpeOptions{.bytes = pre_tokenizer.byte_level,
                 .ignore_merges = file.ignore_merges,
                 .byte_fallback = file.byte_fallback,
                 .fuse_unk = file.fuse_unk,
                 .unk_id = file.unk_token ? by_name.find(*file.unk_token) : TokenIndex::kNone});
  // Where a whole text is one piece, as in Llama 2, words are short pieces that can be cached.
  if (!pre_tokenizer.byte_level && !file.ignore_merges && bpe->can_cut_before(kSpaceMark)) {
    pre_tokenizer.steps.push_back({.splitter = make_mark_splitter(std::string(kSpaceMark))});
  }
}

// From tokenizer_config.json, else from what the post-processor puts around a text.
void Tokenizer::Parts::read_config() {
  const auto named = [this](const char* name) -> std::optional<int32_t> {
    if (!file.config.is_object() || !file.config.contains(name)) {
      return std::nullopt;
    }
    const Json& token = file.config[name];
    const Json content = token.is_object() && token.contains("content") ? token["content"] : token;
    return content.is_string() ? id_of(content.get<std::string>()) : std::nullopt;
  };
  bos_id = named("bos_token");
  if (!bos_id && post_processor.before.size() == 1) {
    bos_id = post_processor.before[0];
  }
  if (const std::optional<int32_t> eos = named("eos_token")) {
    eos_ids = {*eos};
  } else if (post_processor.behind.size() == 1) {
    eos_ids = post_processor.behind;
  }
}

}  // namespace cadre::data
