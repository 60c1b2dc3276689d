#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/text.h"
#include "cli/commands.h"
#include "spec/read.h"
#include "train/rehearsal.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

struct Flags {
  std::string config;
  ReadOptions read;
  bool json = false;
};

Json to_json(const train::Rehearsal& rehearsal) {
  Json memory = Json::object();
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    memory[std::string(name_of(static_cast<MemoryCategory>(i)))] = rehearsal.ledger.bytes[i];
  }
  return {{"parameters", rehearsal.parameters},
          {"flops_per_token", rehearsal.flops_per_token},
          {"memory_bytes", std::move(memory)},
          {"total_bytes", rehearsal.ledger.total()}};
}

void print_for_people(const train::Rehearsal& rehearsal) {
  std::printf("parameters       %.1f million\n", static_cast<double>(rehearsal.parameters) * 1e-6);
  std::printf("flops per token  %.4g\n", rehearsal.flops_per_token);
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    if (rehearsal.ledger.bytes[i] > 0) {
      std::printf("%-16s %s\n", std::string(name_of(static_cast<MemoryCategory>(i))).c_str(),
                  readable_bytes(rehearsal.ledger.bytes[i]).c_str());
    }
  }
  std::printf("%-16s %s\n", "total", readable_bytes(rehearsal.ledger.total()).c_str());
}

int run(const Flags& flags) {
  const Result<LoadedRun> loaded = read_run(flags.config, flags.read);
  if (!loaded) {
    return report(loaded.error());
  }
  const Result<ModelSpec> model = train::resolve_model(*loaded);
  if (!model) {
    return report(model.error());
  }
  const train::Rehearsal rehearsal = train::rehearse(
      train::engine_spec(loaded->run, *model),
      {.target = detect_cpu_target(), .threads = train::thread_count(loaded->run.threads)});
  if (flags.json) {
    std::printf("%s\n", to_json(rehearsal).dump().c_str());
  } else {
    print_for_people(rehearsal);
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command = app.add_subcommand("plan", "what a run will need, without running it");
  command->add_option("config", flags->config, "the run's YAML file")->required();
  command->add_option("--set", flags->read.set, "override a key: a.b=value")
      ->allow_extra_args(false);
  command->add_option("--deepspeed", flags->read.deepspeed, "a DeepSpeed JSON file to merge");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace cadre
