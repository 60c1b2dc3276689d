#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "spec/read.h"
#include "train/trainer.h"

namespace cadre {
namespace {

constexpr int kStoppedOnRequest = 75;

struct Flags {
  std::string config;
  ReadOptions read;
  std::string resume = "auto";
  bool log_json = false;
};

int run(const Flags& flags) {
  Result<LoadedRun> loaded = read_run(flags.config, flags.read);
  if (!loaded) {
    return report(loaded.error());
  }
  train::TrainOptions options{.log_json = flags.log_json};
  if (flags.resume == "never") {
    options.resume = train::TrainOptions::Resume::kNever;
  } else if (flags.resume != "auto") {
    options.resume = train::TrainOptions::Resume::kFrom;
    options.resume_from = flags.resume;
  }
  const Result<train::RunEnd> end = train::train_run(*loaded, options);
  if (!end) {
    return report(end.error());
  }
  return *end == train::RunEnd::kStopped ? kStoppedOnRequest : 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command = app.add_subcommand("train", "train or fine-tune a model");
  command->add_option("config", flags->config, "the run's YAML file")->required();
  command->add_option("--set", flags->read.set, "override a key: a.b=value")
      ->allow_extra_args(false);
  command->add_option("--deepspeed", flags->read.deepspeed, "a DeepSpeed JSON file to merge");
  command->add_option("--output", flags->read.output, "the run's folder");
  command->add_option("--resume", flags->resume, "auto, never, or a checkpoint or run folder");
  command->add_flag("--log-json", flags->log_json, "one JSON object per step on stdout");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace cadre
