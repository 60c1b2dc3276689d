// Writes a configuration as YAML.

#pragma once

#include <string>

#include "spec/run.h"

namespace cadre {

// Every key under its canonical name, defaults included, each path absolute. read_run_text() of it
// gives an equal RunSpec, wherever the file lies. (This is run.yaml of a run's folder.)
std::string print_run(const RunSpec& run);

}  // namespace cadre
