// What must hold for any bytes that claim to be a configuration. Shared by the fuzzer and the
// tests.

#pragma once

#include <string_view>

#include "base/check.h"
#include "spec/print.h"
#include "spec/read.h"

namespace cadre {

// Reads `text`; ends the process if what comes out is neither a run nor an explained refusal.
inline void check_any_text(std::string_view text) {
  const Result<LoadedRun> loaded = read_run_text(text, "/conf/run.yaml");
  if (!loaded.ok()) {
    const std::string& message = loaded.error().message;
    CADRE_CHECK(message.starts_with("/conf/run.yaml"), "a refusal without a place: ", message);
    CADRE_CHECK(loaded.error().kind == ErrorKind::kInput, message);
    return;
  }
  const std::string printed = print_run(loaded->run);
  const Result<LoadedRun> again = read_run_text(printed, "/other/name.yaml");
  CADRE_CHECK(again.ok(), again.ok() ? "" : again.error().message, "\n", printed);
  CADRE_CHECK(again->run == loaded->run, "printed, it reads back differently:\n", printed);
}

}  // namespace cadre
