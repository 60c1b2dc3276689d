// The text that a run writes when it has ended.

#pragma once

#include <cstdint>
#include <string>

#include "train/engine.h"
#include "train/run_setup.h"

namespace cadre::train {

// Positions that prompt and sample need together; 0: no text is wanted.
int64_t sample_positions(const RunSetup& setup);

// The prompt and what follows it, as text.
std::string sample_text(Engine& engine, const RunSetup& setup);

}  // namespace cadre::train
