// The subcommands of `cadre`, one file each. A command adds itself to the program's parser; when it
// is called, it runs at once and leaves its exit code: 0 done, 1 a failure, 2 wrong input, 75
// stopped on request.

#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace cadre {

// `exit_code` outlives `app`.
void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_probe_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_config_command(CLI::App& app, int& exit_code);
void add_tokenizer_command(CLI::App& app, int& exit_code);
void add_checkpoint_command(CLI::App& app, int& exit_code);
void add_data_command(CLI::App& app, int& exit_code);

// Prints the error on stderr and gives its exit code.
int report(const Error& error);

}  // namespace cadre
