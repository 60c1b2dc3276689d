// The text that a run writes when it has ended.

#pragma once

#include <string>

#include "train/engine.h"
#include "train/generation.h"
#include "train/run_setup.h"

namespace cadre::train {

// Of the text; no prompt: none is wanted.
GenerationLength sample_length(const RunSetup& setup);

// The prompt and what follows it, as text.
std::string sample_text(Engine& engine, const RunSetup& setup);

}  // namespace cadre::train
