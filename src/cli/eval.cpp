#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/json.h"
#include "base/step_error.h"
#include "cli/commands.h"
#include "data/dataset.h"
#include "storage/file.h"
#include "train/evaluation.h"
#include "train/model_folder.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

struct Flags {
  std::string model;
  std::vector<std::string> data;
  std::string tokenizer;
  std::string field = "text";
  std::string precision = "fp32";
  int64_t sequence_length = 0;
  int64_t batch_size = 4;
  int64_t threads = 0;
  bool documents = false;
  bool json = false;
};

struct Evaluated {
  train::EvaluationSums sums;
  int64_t text_bytes = 0;
};

Json to_json(const Evaluated& evaluated) {
  const double loss = evaluated.sums.loss / static_cast<double>(evaluated.sums.target_tokens);
  Json json = {
      {"loss", loss}, {"perplexity", std::exp(loss)}, {"tokens", evaluated.sums.target_tokens}};
  // The text's bits over its bytes: comparable between tokenizers.
  json["bits_per_byte"] =
      evaluated.text_bytes > 0
          ? Json(evaluated.sums.loss / std::log(2.0) / static_cast<double>(evaluated.text_bytes))
          : Json(nullptr);
  return json;
}

DataSpec data_spec(const Flags& flags, const ModelSpec& model) {
  DataSpec data;
  data.sources = {};
  data.validation = {SourceSpec{.paths = flags.data, .field = flags.field}};
  data.sequence_length = flags.sequence_length > 0
                             ? flags.sequence_length
                             : std::min<int64_t>(1024, model.max_position_embeddings);
  data.packing = flags.documents ? Packing::kDocument : Packing::kConcat;
  return data;
}

Result<std::unique_ptr<data::Tokenizer>> find_tokenizer(const Flags& flags,
                                                        const std::filesystem::path& folder) {
  if (!flags.tokenizer.empty()) {
    return data::Tokenizer::load(flags.tokenizer);
  }
  if (is_there(folder / "tokenizer.json")) {
    return data::Tokenizer::load(folder.string());
  }
  return std::unique_ptr<data::Tokenizer>();  // the data must be tokens
}

// Where shards are kept for the next time: as train does, in the working directory; where nobody
// may write there, in a folder of temporary files that ends with the evaluation.
class ShardFolder {
 public:
  ShardFolder() {
    std::error_code ignored;
    const std::filesystem::path here = std::filesystem::current_path(ignored);
    const std::filesystem::path existing = data::existing_folder_above(here / kCache / "shards");
    if (::access(existing.c_str(), W_OK) == 0) {
      path_ = here / kCache;
    } else {
      // A name that nobody can have taken before.
      std::string name =
          (std::filesystem::temp_directory_path(ignored) / "cadre-eval-XXXXXX").string();
      temporary_ = ::mkdtemp(name.data()) != nullptr;
      path_ = temporary_ ? std::filesystem::path(name) : here / kCache;
    }
  }
  ~ShardFolder() {
    std::error_code ignored;
    if (temporary_) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  ShardFolder(const ShardFolder&) = delete;
  ShardFolder& operator=(const ShardFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  static constexpr std::string_view kCache = ".cache/cadre";

  std::filesystem::path path_;
  bool temporary_ = false;
};

// Shortens a sequence that is longer than all data: the rest would be padding, whose attention
// costs its square.
Result<std::unique_ptr<data::Dataset>> open_data(DataSpec& data,
                                                 const data::DatasetOptions& options) {
  Result<std::unique_ptr<data::Dataset>> dataset = data::Dataset::open(data, options);
  if (!dataset) {
    return dataset;
  }
  int64_t tokens = 2;
  for (const data::SourceReport& report : (*dataset)->reports()) {
    tokens += report.tokens;
  }
  if (data.sequence_length <= tokens) {
    return dataset;
  }
  data.sequence_length = tokens;
  return data::Dataset::open(data, options);
}

Result<Evaluated> run_eval(const Flags& flags, Log& log) {
  const std::optional<Precision> precision = precision_named(flags.precision);
  if (!precision) {
    return input_error("--precision ", flags.precision, ": allowed are fp32, bf16 and fp16");
  }
  Result<std::filesystem::path> folder = train::find_model_folder(flags.model);
  if (!folder) {
    return folder.error();
  }
  Result<ModelSpec> model = train::read_model_spec(*folder);
  if (!model) {
    return model.error();
  }
  Result<std::unique_ptr<data::Tokenizer>> tokenizer = find_tokenizer(flags, *folder);
  if (!tokenizer) {
    return tokenizer.error();
  }
  DataSpec data = data_spec(flags, *model);
  const ShardFolder shards;  // outlives what is mapped from it
  data.cache_directory = shards.path().string();
  const int threads = train::thread_count(flags.threads);
  ThreadPool pool(threads);
  data::CacheUndo undo(data.cache_directory);
  Result<std::unique_ptr<data::Dataset>> dataset =
      open_data(data, {.encoder = train::encoder_of(tokenizer->get()),
                       .vocab_size = model->vocab_size,
                       .pool = &pool,
                       .log = &log,
                       .undo = &undo});
  if (!dataset) {
    return dataset.error();
  }
  const std::unique_ptr<data::SampleStream> stream = (*dataset)->validation();
  if (stream == nullptr) {
    return input_error("--data: names no tokens");
  }
  Result<std::unique_ptr<train::Engine>> engine =
      train::load_engine(*folder, *model,
                         {.precision = *precision,
                          .batch_size = flags.batch_size,
                          .sequence_length = data.sequence_length,
                          .separate_documents = flags.documents,
                          .threads = threads});
  if (!engine) {
    return engine.error();
  }
  undo.keep();
  Evaluated evaluated{.sums = *train::evaluate_stream(**engine, *stream, {}),
                      .text_bytes = (*dataset)->validation_text_bytes()};
  if (evaluated.sums.target_tokens == 0) {
    return input_error("--data: no token has one that follows it");
  }
  return evaluated;
}

int run(const Flags& flags) {
  Log log({.stream = stderr});
  try {
    const Result<Evaluated> evaluated = run_eval(flags, log);
    if (!evaluated) {
      return report(evaluated.error());
    }
    const Json json = to_json(*evaluated);
    if (flags.json) {
      std::printf("%s\n", json.dump().c_str());
      return 0;
    }
    std::printf("loss %.6f  perplexity %.4f  tokens %lld", json["loss"].get<double>(),
                json["perplexity"].get<double>(),
                static_cast<long long>(evaluated->sums.target_tokens));
    if (!json["bits_per_byte"].is_null()) {
      std::printf("  bits per byte %.4f", json["bits_per_byte"].get<double>());
    }
    std::printf("\n");
    return 0;
  } catch (const StepError& error) {
    return report(failure(error.what()));
  }
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command = app.add_subcommand("eval", "the loss of a model on data");
  command->add_option("model", flags->model, "a Hugging Face folder, checkpoint or run")
      ->required();
  command->add_option("--data", flags->data, "files, folders or globs")->required();
  command->add_option("--field", flags->field, "of JSONL objects");
  command->add_option("--tokenizer", flags->tokenizer, "if not the model's own");
  command->add_option("--seq", flags->sequence_length, "tokens of a sequence")
      ->check(CLI::Range(int64_t{0}, kExtentMax));
  command->add_option("--batch-size", flags->batch_size, "sequences at a time")
      ->check(CLI::Range(int64_t{1}, kExtentMax));
  command->add_flag("--documents", flags->documents, "attention does not cross documents");
  command->add_option("--precision", flags->precision, "fp32, bf16 or fp16");
  command->add_option("--threads", flags->threads, "0: one per processor")
      ->check(CLI::Range(0, kThreadsMax));
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace cadre
