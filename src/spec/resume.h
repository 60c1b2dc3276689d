// May a run that was saved under one configuration be continued under another?

#pragma once

#include <string>
#include <vector>

#include "spec/run.h"

namespace cadre {

struct ResumeDifference {
  std::vector<std::string> refused;   // one line each: the key, both values, why
  std::vector<std::string> reported;  // one line each: the key and both values
};

// By the column "on resume" of docs/configuration.md. Where inputs are named by path, only the
// names are compared: that the data themselves are the same, the caller knows from their index.
ResumeDifference compare_for_resume(const RunSpec& saved, const RunSpec& now);

}  // namespace cadre
