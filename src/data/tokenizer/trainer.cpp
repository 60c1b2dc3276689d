#include "data/tokenizer/trainer.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/merge_learner.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/scanners.h"
#include "data/tokenizer/tokenizer_file.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

struct BytesHash {
  using is_transparent = void;
  size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
};
using WordCounts = std::unordered_map<std::string, int64_t, BytesHash, std::equal_to<>>;

Json pre_tokenizer_of(PreTokenization pre_tokenization) {
  const bool gpt2 = pre_tokenization == PreTokenization::kGpt2;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", gpt2}};
  if (gpt2) {
    return byte_level;
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kLlama3Pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}};
}

// Puts `token` before every text.
Json template_of(const std::string& token, int32_t id) {
  const Json special = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", Json::array({special, sequence("A", 0)})},
      {"pair", Json::array({special, sequence("A", 0), sequence("B", 1)})},
      {"special_tokens",
       {{token, {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}}}}}};
}

Status check(const TrainerOptions& options) {
  const auto specials = static_cast<int64_t>(options.special_tokens.size());
  if (options.vocab_size < 256 + specials || options.vocab_size > INT32_MAX) {
    return input_error("train a tokenizer: a vocabulary of ", options.vocab_size,
                       " tokens cannot hold the 256 bytes and ", specials, " special tokens");
  }
  if (options.min_frequency < 1 || options.threads < 1) {
    return input_error("train a tokenizer: min_frequency is ", options.min_frequency,
                       " and threads is ", options.threads, "; both must be 1 or more");
  }
  std::set<std::string_view> known;
  for (const std::string& token : options.special_tokens) {
    if (token.empty() || !known.insert(token).second) {
      return input_error("train a tokenizer: the special token \"", token,
                         "\" is empty or stands twice");
    }
  }
  for (const std::string& token : {options.bos_token, options.eos_token}) {
    if (!token.empty() && !known.contains(token)) {
      return input_error("train a tokenizer: \"", token, "\" is not one of the special tokens");
    }
  }
  return {};
}

// Counts the words of all texts. Sums do not depend on which thread took which text.
class WordCounter {
 public:
  WordCounter(const TextSource& source, const Splitter& splitter, const AddedTokenMatcher& specials,
              const StopAsked& stop)
      : source_(source), splitter_(splitter), specials_(specials), stop_(stop) {}

  Result<std::vector<CountedWord>> run(int threads) {
    {
      std::vector<std::jthread> helpers;
      for (int i = 1; i < threads; ++i) {
        helpers.emplace_back([this] { work(); });
      }
      work();
    }
    if (error_) {
      return *error_;
    }
    std::vector<CountedWord> words;
    words.reserve(counts_.size());
    for (auto& [bytes, count] : counts_) {
      words.push_back({bytes, count});
    }
    std::sort(words.begin(), words.end(), [](const CountedWord& a, const CountedWord& b) {
      return a.count != b.count ? a.count > b.count : a.bytes < b.bytes;
    });
    return words;
  }

 private:
  bool next_chunk(std::string& chunk) {
    const std::lock_guard lock(mutex_);
    if (at_end_) {
      return false;
    }
    const Status stopped = stop_status(stop_);
    const Result<bool> more = stopped ? source_(chunk) : Result<bool>(stopped.error());
    if (!more) {
      error_ = more.error();
    }
    at_end_ = !more || !*more;
    return !at_end_;
  }

  void work() {
    WordCounts counts;
    RegexScratch scratch;
    std::string chunk;
    std::string storage;
    while (next_chunk(chunk)) {
      const std::string_view text = valid_utf8(chunk, storage);
      AddedTokenMatcher::Match match;
      size_t at = 0;
      while (specials_.find(text, at, match)) {
        count(text.substr(at, match.begin - at), scratch, counts);
        at = match.end;
      }
      count(text.substr(at), scratch, counts);
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [bytes, number] : counts) {
      counts_[bytes] += number;
    }
  }

  void count(std::string_view text, RegexScratch& scratch, WordCounts& counts) const {
    PieceBatch batch;
    splitter_.begin_text(text, scratch);
    for (size_t from = 0; from < text.size();) {
      batch.size = 0;
      splitter_.next_batch(text, from, scratch, batch);
      for (size_t i = 0; i < batch.size; ++i) {
        const std::string_view word = text.substr(from, batch.ends[i] - from);
        from = batch.ends[i];
        const auto known = counts.find(word);
        if (known != counts.end()) {
          ++known->second;
        } else {
          counts.emplace(word, 1);
        }
      }
    }
  }

  const TextSource& source_;
  const Splitter& splitter_;
  const AddedTokenMatcher& specials_;
  const StopAsked& stop_;
  std::mutex mutex_;  // of everything below
  bool at_end_ = false;
  std::optional<Error> error_;
  WordCounts counts_;
};

// Bytes come first, then what was merged, then the special tokens.
TokenizerFile file_of(const std::vector<Merge>& merges, std::vector<AddedToken> specials,
                      const TrainerOptions& options) {
  TokenizerFile file;
  std::vector<std::string> bytes(256);
  for (size_t byte = 0; byte < 256; ++byte) {
    bytes[byte].assign(1, static_cast<char>(static_cast<unsigned char>(byte)));
  }
  for (const Merge& merge : merges) {
    if (merge.merged == static_cast<int32_t>(bytes.size())) {
      bytes.push_back(bytes[static_cast<size_t>(merge.left)] +
                      bytes[static_cast<size_t>(merge.right)]);
    }
  }
  for (const std::string& token : bytes) {
    file.vocab.emplace_back(spelling_of_bytes(token));
  }
  file.merges = merges;
  file.pre_tokenizer = pre_tokenizer_of(options.pre_tokenization);
  file.decoder = {{"type", "ByteLevel"},
                  {"add_prefix_space", true},
                  {"trim_offsets", true},
                  {"use_regex", true}};
  file.post_processor = {{"type", "ByteLevel"},
                         {"add_prefix_space", true},
                         {"trim_offsets", false},
                         {"use_regex", true}};
  file.config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (!options.eos_token.empty()) {
    file.config["eos_token"] = options.eos_token;
  }
  for (AddedToken& token : specials) {
    token.id = static_cast<int32_t>(file.vocab.size());
    file.vocab.emplace_back(token.content);
    if (token.content == options.bos_token) {
      file.config["bos_token"] = token.content;
      file.post_processor = {
          {"type", "Sequence"},
          {"processors", Json::array({file.post_processor, template_of(token.content, token.id)})}};
    }
  }
  file.added_tokens = std::move(specials);
  return file;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> train_tokenizer(const TextSource& source,
                                                   const TrainerOptions& options) {
  if (Status status = check(options); !status) {
    return status.error();
  }
  std::vector<AddedToken> specials;
  for (const std::string& content : options.special_tokens) {
    specials.push_back({.content = content, .normalized = false, .special = true});
  }
  std::vector<AddedTokenMatcher::Entry> entries;
  for (const AddedToken& token : specials) {
    entries.push_back({token.content, &token});
  }
  const AddedTokenMatcher matcher(std::move(entries));
  // Words are cut by what will cut them when text is encoded.
  const Result<PreTokenizer> pre_tokenizer =
      PreTokenizer::parse(pre_tokenizer_of(options.pre_tokenization));
  CADRE_CHECK(pre_tokenizer.ok() && pre_tokenizer->steps.size() == 1,
              "the trainer's pre-tokenizer");
  WordCounter counter(source, *pre_tokenizer->steps[0].splitter, matcher, options.stop);
  const Result<std::vector<CountedWord>> words = counter.run(options.threads);
  if (!words) {
    return words.error();
  }
  const int64_t tokens_max =
      options.vocab_size - static_cast<int64_t>(options.special_tokens.size());
  const std::vector<Merge> merges =
      learn_merges(*words, tokens_max, options.min_frequency, options.stop);
  if (const Status stopped = stop_status(options.stop); !stopped) {
    return stopped.error();
  }
  return Tokenizer::create(file_of(merges, std::move(specials), options));
}

}  // namespace cadre::data
