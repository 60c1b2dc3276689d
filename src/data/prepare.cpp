#include "data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "data/build_lock.h"
#include "data/shard_builder.h"
#include "storage/file.h"
#include "storage/publish.h"
#include "storage/safe_writer.h"

namespace cadre::data {
namespace {

namespace fs = std::filesystem;

constexpr int kCacheVersion = 2;  // another number throws away what older programs made
constexpr std::string_view kManifestName = "manifest.json";

bool is_text(const CorpusFile& file) {
  return file.format == SourceFormat::kText || file.format == SourceFormat::kJsonl;
}

// Everything that decides the bytes of the shards, one thing a line.
std::string key_of(const SourceSpec& spec, const std::vector<CorpusFile>& files,
                   const PrepareOptions& options) {
  const TextEncoder& encoder = options.dataset.encoder;
  const bool any_text = std::ranges::any_of(files, is_text);
  Checksum checksum;
  const auto add = [&checksum](const std::string& line) {
    checksum.add(std::as_bytes(std::span(line)));
  };
  add(fmt::format("cadre token shards {}\neos {}\nwidth {}\nshard_tokens {}\n", kCacheVersion,
                  encoder.eos.value_or(-1), token_bytes_for(options.dataset.vocab_size),
                  options.shard_tokens));
  if (any_text) {
    add(fmt::format("tokenizer {}\nappend_eos {}\nfield {}\n", encoder.hash, options.append_eos,
                    spec.field));
  }
  for (const CorpusFile& file : files) {
    add(state_of(file));
  }
  return checksum_text(checksum.value());
}

// The name as people will look for it, without what file systems do not like.
std::string folder_name(const std::string& name, const std::string& key) {
  constexpr size_t kLettersMax = 40;
  const size_t end = name.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? end : name.find_last_of('/', end);
  std::string readable;
  for (const char c : name.substr(slash == std::string::npos ? 0 : slash + 1)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (readable.size() < kLettersMax && (plain || (!readable.empty() && readable.back() != '-'))) {
      readable += plain ? c : '-';
    }
  }
  return fmt::format("{}{}{}", readable, readable.empty() || readable.back() == '-' ? "" : "-",
                     key);
}

struct Preparation {
  const SourceSpec& spec;
  const PrepareOptions& options;
  std::vector<CorpusFile> files;
  std::string key;
  fs::path folder;
};

SourceReport report_of(const Preparation& work) {
  SourceReport report = {.name = name_of(work.spec), .directory = work.folder.string()};
  report.files = static_cast<int64_t>(work.files.size());
  for (const CorpusFile& file : work.files) {
    report.input_bytes += file.bytes;
  }
  return report;
}

// What the manifest says, or why it cannot be believed.
struct Manifest {
  std::string key;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t shards = 0;
};

Result<Manifest> read_manifest(const fs::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  const Result<Json> json = parse_json(*text, path.string());
  if (!json) {
    return json.error();
  }
  const auto number = [&json](const char* name) {
    return json->is_object() && json->contains(name) && (*json)[name].is_number_integer()
               ? (*json)[name].get<int64_t>()
               : int64_t{-1};
  };
  Manifest manifest = {.key = {},
                       .documents = number("documents"),
                       .tokens = number("tokens"),
                       .shards = number("shards")};
  if (manifest.documents < 0 || manifest.tokens < 0 || manifest.shards < 0 ||
      !json->contains("key") || !(*json)["key"].is_string()) {
    return failure(path.string(), ": not the manifest of token shards");
  }
  manifest.key = (*json)["key"].get<std::string>();
  return manifest;
}

Status write_manifest(const fs::path& folder, const Preparation& work, const ShardBuilder& built) {
  Json json = {{"format", "cadre token shards"}, {"version", kCacheVersion},
               {"source", name_of(work.spec)},   {"key", work.key},
               {"files", work.files.size()},     {"documents", built.documents()},
               {"tokens", built.tokens()},       {"shards", built.shards()}};
  // A name need not be UTF-8; JSON must.
  return write_file(folder / kManifestName,
                    json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// Maps what lies in the folder; an error says what is wrong with it.
Result<PreparedSource> open_prepared(const Preparation& work) {
  const Result<Manifest> manifest = read_manifest(work.folder / kManifestName);
  if (!manifest) {
    return manifest.error();
  }
  if (manifest->key != work.key) {
    return failure(work.folder.string(), ": the manifest has the key ", manifest->key);
  }
  PreparedSource prepared = {.report = report_of(work), .shards = {}};
  SourceReport& report = prepared.report;
  report.shards = manifest->shards;
  for (int64_t number = 0; number < manifest->shards; ++number) {
    std::error_code ignored;
    const auto size = fs::file_size(work.folder / shard_name(number), ignored);
    report.shard_bytes += ignored ? 0 : static_cast<int64_t>(size);
  }
  const auto verify = report.shard_bytes <= work.options.verified_bytes_max
                          ? TokenShard::Verify::kEverything
                          : TokenShard::Verify::kIndex;
  Checksum checksum;
  for (int64_t number = 0; number < manifest->shards; ++number) {
    Result<TokenShard> shard = TokenShard::open(work.folder / shard_name(number), verify);
    if (!shard) {
      return shard.error();
    }
    const uint64_t of_shard = shard->checksum();
    checksum.add(std::as_bytes(std::span(&of_shard, 1)));
    report.tokens += shard->tokens();
    report.documents += static_cast<int64_t>(shard->documents().size());
    if (shard->largest_id() >= work.options.dataset.vocab_size) {
      // Built again, so that the message can name the place in the corpus.
      return failure(work.folder.string(), ": token ", shard->largest_id(),
                     " is not below vocab_size ", work.options.dataset.vocab_size);
    }
    prepared.shards.push_back(std::move(*shard));
  }
  if (report.tokens != manifest->tokens || report.documents != manifest->documents) {
    return failure(work.folder.string(), ": the shards do not add up to the manifest");
  }
  report.checksum = checksum_text(checksum.value());
  return prepared;
}

Status build(const Preparation& work) {
  const auto start = std::chrono::steady_clock::now();
  const SourceReport inputs = report_of(work);
  Log* log = work.options.dataset.log;
  if (log != nullptr) {
    log->info("data", fmt::format("preparing source=\"{}\" files={} bytes={}", inputs.name,
                                  inputs.files, inputs.input_bytes));
  }
  Result<FolderPublisher> publisher = FolderPublisher::begin(work.folder);
  if (!publisher) {
    return publisher.error();
  }
  ShardBuilder builder(publisher->folder(), work.spec, work.options);
  for (const CorpusFile& file : work.files) {
    if (const Status added = builder.add(file); !added) {
      return added;
    }
  }
  if (const Status finished = builder.finish(); !finished) {
    return finished;
  }
  if (builder.tokens() == 0) {
    return input_error("data: source \"", inputs.name, "\" is empty: no tokens in its ",
                       inputs.files, " files");
  }
  if (const Status manifest = write_manifest(publisher->folder(), work, builder); !manifest) {
    return manifest;
  }
  if (const Status published = publisher->publish(); !published) {
    return published;
  }
  if (work.options.dataset.undo != nullptr) {
    work.options.dataset.undo->add(work.folder, inputs.input_bytes);
  }
  if (log != nullptr) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    log->info("data", fmt::format("prepared source=\"{}\" documents={} tokens={} shards={} "
                                  "seconds={:.1f}",
                                  inputs.name, builder.documents(), builder.tokens(),
                                  builder.shards(), took.count()));
  }
  return {};
}

Status check_encoder(const Preparation& work) {
  const TextEncoder& encoder = work.options.dataset.encoder;
  const auto text = std::ranges::find_if(work.files, is_text);
  if (text == work.files.end()) {
    return {};
  }
  if (!encoder.encode) {
    return input_error("data: \"", text->path.string(),
                       "\" is text, and there is no tokenizer; set tokenizer.from");
  }
  if (work.options.append_eos && !encoder.eos) {
    return input_error(
        "data: append_eos is on, but the tokenizer names no EOS token; set data.append_eos: false, "
        "or name one in tokenizer_config.json");
  }
  return {};
}

}  // namespace

Result<PreparedSource> prepare_source(const SourceSpec& spec, const PrepareOptions& options) {
  CADRE_CHECK(options.dataset.vocab_size >= 1, options.dataset.vocab_size);
  Result<std::vector<CorpusFile>> files = list_corpus(spec);
  if (!files) {
    return files.error();
  }
  Preparation work = {
      .spec = spec, .options = options, .files = std::move(*files), .key = {}, .folder = {}};
  if (const Status ready = check_encoder(work); !ready) {
    return ready.error();
  }
  work.key = key_of(spec, work.files, options);
  work.folder = options.cache_directory / folder_name(name_of(spec), work.key);

  const auto reuse = [&work]() -> std::optional<PreparedSource> {
    if (!is_there(work.folder)) {
      return std::nullopt;
    }
    Result<PreparedSource> found = open_prepared(work);
    if (!found) {
      if (Log* log = work.options.dataset.log; log != nullptr) {
        log->warning("data", "building again: " + found.error().message);
      }
      return std::nullopt;
    }
    found->report.reused = true;
    return std::move(*found);
  };
  // Without the lock first: a finished cache may be read-only.
  if (std::optional<PreparedSource> found = reuse()) {
    return std::move(*found);
  }
  const auto lock =
      BuildLock::acquire(options.cache_directory / (".lock-" + work.folder.filename().string()),
                         options.dataset.log, options.dataset.stop);
  if (!lock) {
    return lock.error();
  }
  if (std::optional<PreparedSource> found = reuse()) {  // by the process that held the lock
    return std::move(*found);
  }
  if (const Status built = build(work); !built) {
    return built.error();
  }
  return open_prepared(work);
}

}  // namespace cadre::data
