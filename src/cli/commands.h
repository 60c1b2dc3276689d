// The subcommands of `cadre`, one file each. A command adds itself to the program's parser; when it
// is called, it runs at once and leaves its exit code: 0 done, 1 a failure, 2 wrong input, 75
// stopped.

#pragma once

#include <CLI/CLI.hpp>

namespace cadre {

// `exit_code` outlives `app`.
void add_config_command(CLI::App& app, int& exit_code);
void add_tokenizer_command(CLI::App& app, int& exit_code);

}  // namespace cadre
