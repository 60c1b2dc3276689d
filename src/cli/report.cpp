#include <cstdio>

#include "cli/commands.h"

namespace cadre {

int report(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "cadre: %s\n", error.message.c_str());
  return error.kind == ErrorKind::kInput ? 2 : 1;
}

}  // namespace cadre
