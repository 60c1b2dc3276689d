#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "cli/commands.h"
#include "data/dataset.h"
#include "spec/read.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

struct Flags {
  std::string config;
  ReadOptions read;
  bool json = false;
};

Json to_json(const train::RunSetup& setup) {
  Json sources = Json::array();
  for (const data::SourceReport& report : setup.dataset->reports()) {
    sources.push_back({{"name", report.name},
                       {"files", report.files},
                       {"input_bytes", report.input_bytes},
                       {"documents", report.documents},
                       {"tokens", report.tokens},
                       {"shards", report.shards},
                       {"shard_bytes", report.shard_bytes},
                       {"directory", report.directory},
                       {"reused", report.reused}});
  }
  const auto samples = [](const data::SampleStream* stream) {
    return stream == nullptr ? int64_t{0} : stream->samples_per_epoch();
  };
  return {{"sources", std::move(sources)},
          {"samples_per_epoch", samples(setup.training.get())},
          {"validation_samples", samples(setup.validation.get())}};
}

void print_for_people(const train::RunSetup& setup) {
  std::printf("%10s %12s %14s %12s %7s  %-9s %s\n", "files", "input", "documents", "tokens",
              "shards", "", "source");
  for (const data::SourceReport& report : setup.dataset->reports()) {
    std::printf("%10lld %12s %14lld %12lld %7lld  %-9s %s\n", static_cast<long long>(report.files),
                readable_bytes(report.input_bytes).c_str(),
                static_cast<long long>(report.documents), static_cast<long long>(report.tokens),
                static_cast<long long>(report.shards), report.reused ? "reused" : "prepared",
                report.name.c_str());
    std::printf("           %s in %s\n", readable_bytes(report.shard_bytes).c_str(),
                report.directory.c_str());
  }
  const auto length = static_cast<long long>(setup.spec.data.sequence_length);
  std::printf("an epoch is %lld samples of %lld tokens",
              static_cast<long long>(setup.training->samples_per_epoch()), length);
  if (setup.validation != nullptr) {
    std::printf("; validation has %lld",
                static_cast<long long>(setup.validation->samples_per_epoch()));
  }
  std::printf("\n");
}

int run(const Flags& flags) {
  const Result<LoadedRun> loaded = read_run(flags.config, flags.read);
  if (!loaded) {
    return report(loaded.error());
  }
  Log log({.stream = stderr});
  for (const std::string& note : loaded->notes) {
    log.warning("spec", note);
  }
  const Result<train::RunSetup> setup = train::set_up_run(*loaded, {.log = &log});
  if (!setup) {
    return report(setup.error());
  }
  setup->cache_undo->keep();
  if (flags.json) {
    std::printf("%s\n", to_json(*setup).dump().c_str());
  } else {
    print_for_people(*setup);
  }
  return 0;
}

}  // namespace

void add_data_command(CLI::App& app, int& exit_code) {
  CLI::App* const data = app.add_subcommand("data", "corpora and their token shards");
  data->require_subcommand(1);
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command =
      data->add_subcommand("prepare", "tokenize a run's corpora now, as train does on first use");
  command->add_option("config", flags->config, "the run's YAML file")->required();
  command->add_option("--set", flags->read.set, "override a key: a.b=value")
      ->allow_extra_args(false);
  command->add_option("--deepspeed", flags->read.deepspeed, "a DeepSpeed JSON file to merge");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace cadre
