// Overrides of the command line: --set training.steps=100, --set data.sources[0].weight=2.

#pragma once

#include <string>
#include <vector>

#include "spec/value.h"

namespace cadre {

// Changes the tree as if the file had said so; later settings win. A key takes the place of its
// other spellings and of its alternative (`steps` of `epochs`); `key=null` takes it back to its
// default. The schema knows whether a value is text, taken as it is, or YAML: a number, a list, a
// map.
void apply_settings(ConfigValue& root, const std::vector<std::string>& settings,
                    ReadContext& context);

}  // namespace cadre
