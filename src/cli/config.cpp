// cadre config: what a configuration says, and what it could say.

#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "spec/print.h"
#include "spec/read.h"
#include "spec/reference.h"

namespace cadre {
namespace {

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int check_config(const std::string& path, const ReadOptions& options) {
  const Result<LoadedRun> loaded = read_run(path, options);
  if (!loaded.ok()) {
    return report(loaded.error());
  }
  for (const std::string& note : loaded->notes) {
    std::fprintf(stderr, "%s\n", note.c_str());
  }
  print(print_run(loaded->run));
  return 0;
}

}  // namespace

void add_config_command(CLI::App& app, int& exit_code) {
  CLI::App* config = app.add_subcommand("config", "check a configuration, or print the reference");
  config->require_subcommand(1);

  CLI::App* reference =
      config->add_subcommand("reference", "print every key: type, bounds, default, meaning");
  reference->callback([] { print(configuration_reference()); });

  struct Arguments {
    std::string path;
    ReadOptions options;
  };
  const auto arguments = std::make_shared<Arguments>();  // owned by the parser's callback
  CLI::App* check =
      config->add_subcommand("check", "read a configuration as train does, and print it resolved");
  check->add_option("config", arguments->path, "the YAML file")->required();
  check->add_option("--set", arguments->options.set, "a key and its value: training.steps=100")
      ->take_all()
      ->allow_extra_args(false);
  check->add_option("--deepspeed", arguments->options.deepspeed, "a DeepSpeed JSON file to merge");
  check->add_option("--output", arguments->options.output, "the run's folder");
  check->callback(
      [arguments, &exit_code] { exit_code = check_config(arguments->path, arguments->options); });
}

}  // namespace cadre
