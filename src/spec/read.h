// Reads a configuration: YAML, overrides of the command line and a DeepSpeed file become one
// RunSpec, checked whole before anything starts.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "spec/run.h"

namespace cadre {

struct ReadOptions {
  std::vector<std::string> set = {};  // "training.learning_rate=1e-4"; later ones win
  std::string deepspeed = {};         // a DeepSpeed JSON file that is merged; empty: none
  std::string output = {};            // overrides the key `output`; empty: it stands
};

struct LoadedRun {
  RunSpec run;
  // Where each key that was given stands: "training.steps" -> "run.yaml:12:10", "--set
  // training.steps".
  std::map<std::string, std::string> places = {};
  std::vector<std::string> notes = {};  // what a person should know, one line each: for the log

  // The place of a key, or of the nearest section around it: for a check that is made later.
  std::string place_of(std::string_view key) const;
};

// The error lists everything that is wrong, one line each: file:line:column, key, found, allowed.
Result<LoadedRun> read_run(const std::string& path, const ReadOptions& options = {});

// As read_run() with the YAML in `text`; `path` names it in messages, and need not exist.
Result<LoadedRun> read_run_text(std::string_view text, const std::string& path,
                                const ReadOptions& options = {});

}  // namespace cadre
