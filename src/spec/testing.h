// Helpers of this folder's tests: configurations that are whole but for what a test is about.

#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "spec/read.h"

namespace cadre::spec_testing {

inline constexpr std::string_view kModel =
    "model: {model_type: llama, vocab_size: 300, hidden_size: 24, num_attention_heads: 6, "
    "num_key_value_heads: 3}\n";

// The lines of `training` after those of a model and one step, which the test's own lines follow.
inline std::string with_training(std::string_view lines) {
  return std::string(kModel) + "training:\n  steps: 10\n" + std::string(lines);
}

inline std::string refusal(std::string_view text, const ReadOptions& options = {}) {
  const Result<LoadedRun> result = read_run_text(text, "/conf/run.yaml", options);
  std::string message = result.ok() ? "" : result.error().message;
  for (size_t at = message.find("/conf/"); at != std::string::npos;
       at = message.find("/conf/", at)) {
    message.erase(at, 6);
  }
  return message;
}

// The run of a text that must be right.
inline LoadedRun loaded(std::string_view text, const ReadOptions& options = {}) {
  Result<LoadedRun> result = read_run_text(text, "/conf/run.yaml", options);
  CADRE_CHECK(result.ok(), result.error().message);
  return *std::move(result);
}

}  // namespace cadre::spec_testing
