#include "data/tokenizer_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "data/build_lock.h"
#include "data/corpus.h"
#include "data/documents.h"
#include "data/tokenizer/trainer.h"
#include "storage/checksum.h"
#include "storage/publish.h"

namespace cadre::data {
namespace {

namespace fs = std::filesystem;

constexpr int kTrainerVersion = 1;  // another number throws away what older programs trained

struct Inputs {
  std::string key;
  int64_t bytes = 0;
};

// Everything that decides the vocabulary, one thing a line.
Result<Inputs> look_at_inputs(std::span<const SourceSpec> sources, int64_t vocab_size) {
  Inputs inputs;
  std::string lines =
      fmt::format("cadre trained tokenizer {}\nvocab_size {}\n", kTrainerVersion, vocab_size);
  for (const SourceSpec& source : sources) {
    const Result<std::vector<CorpusFile>> files = list_corpus(source);
    if (!files) {
      return files.error();
    }
    lines += fmt::format("field {}\n", source.field);
    for (const CorpusFile& file : *files) {
      lines += state_of(file);
      inputs.bytes += file.bytes;
    }
  }
  inputs.key = checksum_text(checksum_of(std::as_bytes(std::span(lines))));
  return inputs;
}

Status train_into(const fs::path& folder, std::span<const SourceSpec> sources,
                  const TrainedTokenizerOptions& options) {
  Result<TextSource> text = text_of(sources);
  if (!text) {
    return text.error();
  }
  const auto start = std::chrono::steady_clock::now();
  if (options.log != nullptr) {
    options.log->info("data",
                      fmt::format("training the tokenizer vocab_size={}", options.vocab_size));
  }
  const Result<std::unique_ptr<Tokenizer>> trained = train_tokenizer(
      *text, {.vocab_size = options.vocab_size, .threads = options.threads, .stop = options.stop});
  if (!trained) {
    return trained.error();
  }
  Result<FolderPublisher> publisher = FolderPublisher::begin(folder);
  if (!publisher) {
    return publisher.error();
  }
  if (const Status saved = (*trained)->save(publisher->folder().string()); !saved) {
    return saved;
  }
  if (options.log != nullptr) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    options.log->info("data", fmt::format("trained the tokenizer tokens={} seconds={:.1f}",
                                          (*trained)->vocab_size(), took.count()));
  }
  return publisher->publish();
}

// Null: there is none that can be used.
std::unique_ptr<Tokenizer> find_trained(const fs::path& folder,
                                        const TrainedTokenizerOptions& options) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    return nullptr;
  }
  Result<std::unique_ptr<Tokenizer>> found = Tokenizer::load(folder.string());
  if (found) {
    return *std::move(found);
  }
  if (options.log != nullptr) {
    options.log->warning("data", found.error().message + "; it is trained again");
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> trained_tokenizer(std::span<const SourceSpec> sources,
                                                     const TrainedTokenizerOptions& options) {
  const Result<Inputs> inputs = look_at_inputs(sources, options.vocab_size);
  if (!inputs) {
    return inputs.error();
  }
  const fs::path folder = options.cache_directory / ("tokenizer-" + inputs->key);
  if (std::unique_ptr<Tokenizer> found = find_trained(folder, options)) {
    return found;
  }
  const Result<BuildLock> lock = BuildLock::acquire(
      folder.parent_path() / (".lock-" + folder.filename().string()), options.log, options.stop);
  if (!lock) {
    return lock.error();
  }
  if (std::unique_ptr<Tokenizer> found = find_trained(folder, options)) {  // by who had the lock
    return found;
  }
  if (const Status trained = train_into(folder, sources, options); !trained) {
    return trained.error();
  }
  if (options.undo != nullptr) {
    options.undo->add(folder, inputs->bytes);
  }
  return Tokenizer::load(folder.string());
}

}  // namespace cadre::data
