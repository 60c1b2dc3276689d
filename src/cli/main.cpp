// cadre: one file per subcommand beside this one.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "base/text.h"
#include "cli/commands.h"

namespace {

// Names and texts go into JSON and YAML files, which are UTF-8. 0: all arguments may.
int first_argument_not_utf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (cadre::find_invalid_utf8(argv[i]) != std::string_view::npos) {
      return i;
    }
  }
  return 0;
}

// Other bytes than those of ASCII as \xff, as a shell's $'...' has them.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    result += code < 0x20 || code > 0x7E ? fmt::format("\\x{:02x}", code) : std::string(1, letter);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (const int bad = first_argument_not_utf8(argc, argv); bad > 0) {
    return cadre::report(
        cadre::input_error("argument ", bad, ", $'", escaped(argv[bad]), "': not valid UTF-8"));
  }
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
