// A DeepSpeed configuration file, merged into what a configuration says.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/statements.h"

namespace cadre {

// What becomes of a key of DeepSpeed's file.
struct DeepSpeedKey {
  std::string_view path;       // "zero_optimization.stage"
  std::string_view canonical;  // our key with the same meaning; empty: none
  std::string_view remark;     // if it has no meaning here, why; a section's stands for all in it
};
std::span<const DeepSpeedKey> deepspeed_keys();

// Adds to `statements` what `text` says, under the place `source:line:column`. "auto" leaves the
// configuration's value. What has no meaning here becomes a note, one each. A value that
// contradicts the configuration is a problem that names both places.
void merge_deepspeed(std::string_view text, const std::string& source, Statements& statements,
                     ReadContext& context, std::vector<std::string>& notes);

}  // namespace cadre
