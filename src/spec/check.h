// What cannot be together in one configuration.

#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/model.h"
#include "spec/read.h"
#include "spec/statements.h"

namespace cadre {

// Looks at `draft` (the values) and `statements` (which of them were given). Called by read_run().
void check_combinations(const Draft& draft, const Statements& statements, ReadContext& context,
                        std::vector<std::string>& notes);

// Looks at what only the resolved model knows: called once its config.json has been read. A
// vocabulary of 0 is taken from the tokenizer later.
Status check_model(const LoadedRun& loaded, const ModelSpec& model);

// Has the run what training needs and planning does not: data, and something to make tokens of it?
Status check_trainable(const LoadedRun& loaded);

}  // namespace cadre
