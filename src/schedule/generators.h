// The list of pipeline schedules, and the one call that makes any of them.

#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "schedule/pipeline.h"

namespace cadre::schedule {

enum class Kind { kGpipe, kOneFOneB, kInterleaved, kZeroBubbleH1, kZeroBubbleV };

inline constexpr std::array kKinds = {Kind::kGpipe, Kind::kOneFOneB, Kind::kInterleaved,
                                      Kind::kZeroBubbleH1, Kind::kZeroBubbleV};

std::string_view name(Kind kind);  // gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_v
std::optional<Kind> kind_of(std::string_view name);

// Whether the schedule exists for this shape. Fewer micro-batches than ranks are fine (with their
// bubbles), except for interleaved_1f1b, which wants a multiple of the ranks.
Status check_shape(Kind kind, const PipelineShape& shape);

// The lists, messages included, of a shape that check_shape() lets pass. The error is that of
// check_shape().
Result<Pipeline> make_pipeline(Kind kind, const PipelineShape& shape);

}  // namespace cadre::schedule
