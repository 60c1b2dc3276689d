// ModelIndex: model.safetensors.index.json, which says in which file each weight is.

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cadre {

struct ModelIndex {
  std::map<std::string, std::string, std::less<>> file_of;  // by tensor
};

// Refuses what is not an index, a tensor named twice, and names of files that leave the folder.
Result<ModelIndex> parse_model_index(std::string_view text, std::string_view source);

}  // namespace cadre
