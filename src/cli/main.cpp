// cadre: one file per subcommand beside this one.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app("cadre: trains transformer language models");
  app.set_version_flag("--version", CADRE_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  cadre::add_train_command(app, exit_code);
  cadre::add_eval_command(app, exit_code);
  cadre::add_generate_command(app, exit_code);
  cadre::add_probe_command(app, exit_code);
  cadre::add_plan_command(app, exit_code);
  cadre::add_bench_command(app, exit_code);
  cadre::add_config_command(app, exit_code);
  cadre::add_data_command(app, exit_code);
  cadre::add_tokenizer_command(app, exit_code);
  cadre::add_checkpoint_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and the version are not mistakes.
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cadre: %s\n", error.what());
    return 1;
  }
  // What could not be written was not told: a full disk, a reader that has gone.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "cadre: cannot write to stdout: %s\n", std::strerror(errno));
    return exit_code == 0 ? 1 : exit_code;
  }
  return exit_code;
}
