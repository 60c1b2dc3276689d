// cadre tokenizer train | encode | decode

#include "data/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/commands.h"
#include "data/documents.h"
#include "data/tokenizer/trainer.h"
#include "storage/byte_stream.h"
#include "storage/file.h"

namespace cadre {
namespace {

using data::Tokenizer;

int exit_code_of(const Status& status) {
  return status ? 0 : report(status.error());
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

struct TrainFlags {
  int64_t vocab_size = 32000;
  std::string output = "tokenizer";
  std::vector<std::string> files = {};
  std::string field = "text";
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::string pre_tokenization = "llama3";
  int64_t min_frequency = 2;
  int threads = 0;
};

int train(const TrainFlags& flags) {
  data::TrainerOptions options{.vocab_size = flags.vocab_size,
                               .special_tokens = flags.special_tokens,
                               .min_frequency = flags.min_frequency,
                               .threads = flags.threads};
  options.pre_tokenization = flags.pre_tokenization == "gpt2" ? data::PreTokenization::kGpt2
                                                              : data::PreTokenization::kLlama3;
  options.eos_token = flags.special_tokens.empty() ? "" : flags.special_tokens.front();
  if (options.threads == 0) {
    options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (Status status = check_writable(flags.output); !status) {
    return report(status.error());
  }
  const SourceSpec source = {.paths = flags.files, .field = flags.field};
  const Result<data::TextSource> text = data::text_of({&source, 1});
  if (!text) {
    return report(text.error());
  }
  Result<std::unique_ptr<Tokenizer>> tokenizer = data::train_tokenizer(*text, options);
  if (!tokenizer) {
    return report(tokenizer.error());
  }
  if (Status status = (*tokenizer)->save(flags.output); !status) {
    return report(status.error());
  }
  print(fmt::format("{} tokens, written to {}\n", (*tokenizer)->vocab_size(), flags.output));
  return 0;
}

struct EncodeFlags {
  std::string tokenizer;
  std::string text;
  bool has_text = false;
  std::string file;
  bool json = false;
  bool json_lines = false;
  bool no_special_tokens = false;
  bool plain_special = false;
  bool benchmark = false;
};

std::string listed_ids(const std::vector<int32_t>& ids, bool json) {
  return json ? fmt::format("[{}]\n", fmt::join(ids, ","))
              : fmt::format("{}\n", fmt::join(ids, " "));
}

// One JSON string a line in, one list of ids a line out.
Status encode_lines(const Tokenizer& tokenizer, const EncodeFlags& flags,
                    const data::EncodeOptions& options) {
  Result<std::unique_ptr<ByteStream>> stream = open_byte_stream(flags.file);
  if (!stream) {
    return stream.error();
  }
  LineReader reader(std::move(*stream), flags.file);
  for (;;) {
    auto line = reader.next();
    if (!line) {
      return line.error();
    }
    if (!*line) {
      return {};
    }
    const std::string place = concat(flags.file, ":", reader.line_number());
    Result<Json> text = parse_json(**line, place);
    if (!text) {
      return text.error();
    }
    if (!text->is_string()) {
      return input_error(place, ": ", text->type_name(), ", not a string in quotes");
    }
    print(listed_ids(tokenizer.encode(text->get_ref<const std::string&>(), options), true));
  }
}

// The best of many rounds over the text on one core: the others were disturbed.
void benchmark(const Tokenizer& tokenizer, const std::string& text,
               const data::EncodeOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::vector<int32_t> ids;
  double best = 1e9;
  const Clock::time_point start = Clock::now();
  do {
    const Clock::time_point round = Clock::now();
    ids.clear();
    tokenizer.encode_append(text, options, ids);
    best = std::min(best, seconds_since(round));
  } while (seconds_since(start) < 3.0);
  print(fmt::format("{} bytes, {} ids, {:.1f} MB/s\n", text.size(), ids.size(),
                    static_cast<double>(text.size()) / best / 1e6));
}

int encode(const EncodeFlags& flags) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(flags.tokenizer);
  if (!tokenizer) {
    return report(tokenizer.error());
  }
  if (flags.has_text == !flags.file.empty()) {
    return report(input_error("encode needs either a text or --file"));
  }
  const data::EncodeOptions options{.add_special_tokens = !flags.no_special_tokens,
                                    .parse_special = !flags.plain_special};
  if (flags.json_lines) {
    return exit_code_of(encode_lines(**tokenizer, flags, options));
  }
  std::string text = flags.text;
  if (!flags.file.empty()) {
    Result<std::string> read = read_file(flags.file);
    if (!read) {
      return report(read.error());
    }
    text = std::move(*read);
  }
  if (flags.benchmark) {
    benchmark(**tokenizer, text, options);
  } else {
    print(listed_ids((*tokenizer)->encode(text, options), flags.json));
  }
  return 0;
}

struct DecodeFlags {
  std::string tokenizer;
  std::vector<int32_t> ids = {};
  bool skip_special = false;
};

int decode(const DecodeFlags& flags) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(flags.tokenizer);
  if (!tokenizer) {
    return report(tokenizer.error());
  }
  for (const int32_t id : flags.ids) {
    if (id < 0 || id >= (*tokenizer)->vocab_size()) {
      return report(input_error("the id ", id, " is outside of the vocabulary (0 to ",
                                (*tokenizer)->vocab_size() - 1, ")"));
    }
  }
  print((*tokenizer)->decode(flags.ids, {.skip_special = flags.skip_special}) + "\n");
  return 0;
}

void add_train(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();  // owned by the callback, filled by the parser
  CLI::App* command = app.add_subcommand("train", "learn a byte-level BPE vocabulary from text");
  command
      ->add_option("files", flags->files,
                   "files, folders and globs of text or JSONL, also .gz, .zst")
      ->required();
  command->add_option("--field", flags->field, "of JSONL objects")->capture_default_str();
  command->add_option("--vocab-size", flags->vocab_size, "tokens, with the 256 bytes and specials")
      ->capture_default_str();
  command->add_option("--output", flags->output, "folder for tokenizer.json")
      ->capture_default_str();
  command->add_option("--special", flags->special_tokens, "special tokens; the first ends a text")
      ->capture_default_str();
  command->add_option("--pre-tokenizer", flags->pre_tokenization, "how text is cut into words")
      ->check(CLI::IsMember({"llama3", "gpt2"}))
      ->capture_default_str();
  command->add_option("--min-frequency", flags->min_frequency, "rarer pairs are not merged")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = train(*flags); });
}

void add_encode(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EncodeFlags>();  // owned by the callback, filled by the parser
  CLI::App* command = app.add_subcommand("encode", "print the ids of a text");
  command->add_option("--tokenizer", flags->tokenizer, "tokenizer.json or its folder")->required();
  CLI::Option* text = command->add_option("text", flags->text, "the text");
  command->add_option("--file", flags->file, "a file with the text")->excludes(text);
  command->add_flag("--json", flags->json, "print a JSON list");
  command->add_flag("--json-lines", flags->json_lines, "each line of the file is a JSON string")
      ->needs("--file");
  command->add_flag("--no-special-tokens", flags->no_special_tokens, "leave BOS and EOS out");
  command->add_flag("--plain-special", flags->plain_special,
                    "special tokens inside the text are ordinary text");
  command->add_flag("--benchmark", flags->benchmark,
                    "encode the text again and again for 3 seconds and print the best speed");
  command->callback([flags, text, &exit_code] {
    flags->has_text = text->count() > 0;
    exit_code = encode(*flags);
  });
}

void add_decode(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DecodeFlags>();  // owned by the callback, filled by the parser
  CLI::App* command = app.add_subcommand("decode", "print the text of ids");
  command->add_option("--tokenizer", flags->tokenizer, "tokenizer.json or its folder")->required();
  command->add_option("ids", flags->ids, "token ids")->required();
  command->add_flag("--skip-special", flags->skip_special, "leave special tokens out");
  command->callback([flags, &exit_code] { exit_code = decode(*flags); });
}

}  // namespace

void add_tokenizer_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("tokenizer", "train a tokenizer, encode and decode text");
  command->require_subcommand(1);
  add_train(*command, exit_code);
  add_encode(*command, exit_code);
  add_decode(*command, exit_code);
}

}  // namespace cadre
