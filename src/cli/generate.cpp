#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/step_error.h"
#include "cli/commands.h"
#include "train/generation.h"
#include "train/model_folder.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

struct Flags {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::string precision = "fp32";
  int64_t threads = 0;
  train::GenerationOptions options;
};

Status check(const train::GenerationOptions& options) {
  if (options.tokens < 1) {
    return input_error("--max-tokens ", options.tokens, ": must be at least 1");
  }
  if (!(options.temperature >= 0.0)) {
    return input_error("--temperature ", options.temperature, ": must not be negative");
  }
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    return input_error("--top-p ", options.top_p, ": must be above 0 and at most 1");
  }
  if (options.top_k < 0) {
    return input_error("--top-k ", options.top_k, ": must not be negative");
  }
  return {};
}

Status run_generate(Flags flags) {
  if (Status status = check(flags.options); !status) {
    return status;
  }
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
  Result<std::unique_ptr<data::Tokenizer>> tokenizer =
      data::Tokenizer::load(flags.tokenizer.empty() ? folder->string() : flags.tokenizer);
  if (!tokenizer) {
    return tokenizer.error();
  }
  std::vector<int32_t> prompt = (*tokenizer)->encode(flags.prompt);
  if (prompt.empty()) {
    prompt.push_back((*tokenizer)->bos_id().value_or((*tokenizer)->eos_id().value_or(0)));
  }
  const auto positions = static_cast<int64_t>(prompt.size()) + flags.options.tokens;
  if (positions > model->max_position_embeddings) {
    return input_error("the prompt's ", prompt.size(), " tokens and --max-tokens ",
                       flags.options.tokens, " exceed the model's ", model->max_position_embeddings,
                       " positions");
  }
  for (const int32_t id : prompt) {
    if (id >= model->vocab_size) {
      return input_error("the tokenizer gives id ", id, ", but the model's vocab_size is ",
                         model->vocab_size);
    }
  }
  Result<std::unique_ptr<train::Engine>> engine = train::load_engine(
      *folder, *model,
      {.precision = *precision,
       .sequence_length = positions,
       .text = {.prompt = static_cast<int64_t>(prompt.size()), .tokens = flags.options.tokens},
       .threads = train::thread_count(flags.threads)});
  if (!engine) {
    return engine.error();
  }
  flags.options.stop = model->eos_token_ids;
  data::Tokenizer::Stream stream(**tokenizer, {.skip_special = true});
  std::string text;
  for (const int32_t id : prompt) {
    text += stream.push(id);
  }
  std::fputs(text.c_str(), stdout);
  train::generate(**engine, prompt, flags.options, [&](int32_t id) {
    std::fputs(stream.push(id).c_str(), stdout);
    std::fflush(stdout);
  });
  std::printf("%s\n", stream.finish().c_str());
  return {};
}

}  // namespace

void add_generate_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command = app.add_subcommand("generate", "continue a text with a model");
  command->add_option("model", flags->model, "a Hugging Face folder, checkpoint or run")
      ->required();
  command->add_option("--prompt", flags->prompt, "the text to continue");
  command->add_option("--tokenizer", flags->tokenizer, "if not the model's own");
  command->add_option("--max-tokens", flags->options.tokens, "new tokens at most")
      ->check(CLI::Range(int64_t{0}, kExtentMax));
  command->add_option("--temperature", flags->options.temperature, "0: the most likely token");
  command->add_option("--top-k", flags->options.top_k, "only the k most likely; 0: all");
  command->add_option("--top-p", flags->options.top_p, "only the most likely that reach p");
  command->add_option("--seed", flags->options.seed, "of the random choice");
  command->add_option("--precision", flags->precision, "fp32, bf16 or fp16");
  command->add_option("--threads", flags->threads, "0: one per processor")
      ->check(CLI::Range(0, kThreadsMax));
  command->callback([flags, &exit_code] {
    const Status status = run_generate(*flags);
    exit_code = status.ok() ? 0 : report(status.error());
  });
}

}  // namespace cadre
