// RunState: where a run stands, beside its tensors. trainer_state.json of a checkpoint;
// docs/checkpoint-format.md specifies it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cadre::train {

inline constexpr size_t kLossWindow = 64;  // losses that the running median is taken of

// What a training source held, so that a run is not continued on other data in silence: samples are
// numbered by what is there.
struct SourceState {
  std::string name = {};  // for messages; it may change
  int64_t tokens = 0;
  std::string checksum = {};

  bool operator==(const SourceState&) const = default;
};

struct RunState {
  int64_t step = 0;     // steps done
  int64_t samples = 0;  // of the training stream that have been used: the number of the next one
  int64_t tokens = 0;
  int64_t bad_steps = 0;    // that were skipped, in a row
  double loss_scale = 0.0;  // fp16; 0: none
  int64_t good_steps = 0;   // fp16: since the scale last changed
  std::deque<double> recent_losses = {};
  std::vector<SourceState> sources = {};  // in the order of data.sources

  bool operator==(const RunState&) const = default;
};

// Whether a loss is more than `threshold` times the median of the recent ones; never while there
// are few, or with a threshold of 0.
bool is_spike(const RunState& state, double loss, double threshold);
void remember(RunState& state, double loss);

// `optimizer_updates`: of the optimizer, which skipped steps do not count.
Json write_run_state(const RunState& state, int64_t optimizer_updates);
Result<RunState> read_run_state(const Json& json, std::string_view source);

// Refuses, by name, the source whose data are not those of the checkpoint. `checkpoint` is for the
// message.
Status check_same_data(const std::vector<SourceState>& saved, const std::vector<SourceState>& now,
                       std::string_view checkpoint);

}  // namespace cadre::train
