// cadre checkpoint list | verify

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/manifest.h"
#include "cli/commands.h"

namespace cadre {
namespace {

struct Flags {
  std::string folder;
  bool json = false;
};

// People name the run or its checkpoints: `runs/demo` or `runs/demo/checkpoints`.
std::filesystem::path checkpoints_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path inside = folder / "checkpoints";
  return std::filesystem::is_directory(inside, ignored) ? inside : folder;
}

// Unlike a run that starts, a person who names a folder that is not there has mistyped it.
Result<std::vector<CheckpointInfo>> checkpoints_of(const Flags& flags, Scrutiny scrutiny) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(flags.folder, ignored)) {
    return input_error("\"", flags.folder, "\" is not a folder");
  }
  return list_checkpoints(checkpoints_in(flags.folder), scrutiny);
}

void print(const CheckpointInfo& info, bool json) {
  if (json) {
    const Json line = {{"step", info.step},
                       {"path", info.path.string()},
                       {"complete", info.complete()},
                       {"bytes", info.bytes},
                       {"problem", info.problem}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%10lld  %-10s  %s%s%s\n", static_cast<long long>(info.step),
                info.complete() ? readable_bytes(info.bytes).c_str() : "not whole",
                info.path.c_str(), info.complete() ? "" : ": ", info.problem.c_str());
  }
}

int run_list(const Flags& flags) {
  const Result<std::vector<CheckpointInfo>> all = checkpoints_of(flags, Scrutiny::kSizes);
  if (!all) {
    return report(all.error());
  }
  for (const CheckpointInfo& info : *all) {
    print(info, flags.json);
  }
  return 0;
}

// One checkpoint, or all of a run. Every byte is read.
int run_verify(const Flags& flags) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(flags.folder) / kManifestName, ignored)) {
    const Result<CheckpointInfo> info = verify_checkpoint(flags.folder, Scrutiny::kChecksums);
    if (!info) {
      return report(info.error());
    }
    print(*info, flags.json);
    return 0;
  }
  const Result<std::vector<CheckpointInfo>> all = checkpoints_of(flags, Scrutiny::kChecksums);
  if (!all) {
    return report(all.error());
  }
  if (all->empty()) {
    return report(input_error("\"", flags.folder, "\" holds no checkpoint and is none: it has no ",
                              kManifestName));
  }
  int exit_code = 0;
  for (const CheckpointInfo& info : *all) {
    print(info, flags.json);
    exit_code = info.complete() ? exit_code : 2;
  }
  return exit_code;
}

void add(CLI::App& parent, const char* name, const char* description, int (*run)(const Flags&),
         int& exit_code) {
  // Owned by the callback, which the parser keeps as long as itself.
  const auto flags = std::make_shared<Flags>();
  CLI::App* const command = parent.add_subcommand(name, description);
  command->add_option("folder", flags->folder, "A run, its checkpoints folder, or one checkpoint")
      ->required();
  command->add_flag("--json", flags->json, "One JSON object per line");
  command->callback([flags, run, &exit_code] { exit_code = run(*flags); });
}

}  // namespace

void add_checkpoint_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand(
      "checkpoint", "List the checkpoints of a run, or check that they are whole");
  command->require_subcommand(1);
  add(*command, "list", "Steps, sizes, and what is not whole (by sizes alone)", run_list,
      exit_code);
  add(*command, "verify", "Read every byte and compare checksums", run_verify, exit_code);
}

}  // namespace cadre
