#include "schedule/generators.h"

#include <algorithm>

#include "schedule/check.h"
#include "schedule/gpipe.h"
#include "schedule/interleaved.h"
#include "schedule/one_f_one_b.h"
#include "schedule/zero_bubble.h"

namespace cadre::schedule {
namespace {

// Lists longer than this are a mistake in the configuration, not a step.
constexpr int64_t kComputationsMax = int64_t{1} << 26;

Pipeline generate(Kind kind, const PipelineShape& shape) {
  switch (kind) {
    case Kind::kGpipe:
      return gpipe(shape);
    case Kind::kOneFOneB:
      return one_f_one_b(shape);
    case Kind::kInterleaved:
      return interleaved_1f1b(shape);
    case Kind::kZeroBubbleH1:
      return zb_h1(shape);
    case Kind::kZeroBubbleV:
      return zb_v(shape);
  }
  CADRE_CHECK(false, "no such kind of pipeline schedule");
}

Error unsuited(Kind kind, const PipelineShape& shape) {
  const int64_t wanted = kind == Kind::kZeroBubbleV ? 2 : 1;
  return input_error("pipeline schedule ", name(kind), " has ", wanted,
                     wanted == 1 ? " stage" : " stages", " per rank, found ", shape.stages_per_rank,
                     "; set ", wanted,
                     kind == Kind::kZeroBubbleV ? "" : ", or use interleaved_1f1b");
}

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kGpipe:
      return "gpipe";
    case Kind::kOneFOneB:
      return "1f1b";
    case Kind::kInterleaved:
      return "interleaved_1f1b";
    case Kind::kZeroBubbleH1:
      return "zb_h1";
    case Kind::kZeroBubbleV:
      return "zb_v";
  }
  return "?";
}

std::optional<Kind> kind_of(std::string_view name_of_kind) {
  const auto found =
      std::ranges::find_if(kKinds, [&](Kind kind) { return name(kind) == name_of_kind; });
  return found == kKinds.end() ? std::nullopt : std::optional(*found);
}

Status check_shape(Kind kind, const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.stages_per_rank < 1 || shape.micro_batches < 1) {
    return input_error("pipeline schedule ", name(kind), ": ", shape.ranks, " ranks with ",
                       shape.stages_per_rank, " stages each and ", shape.micro_batches,
                       " micro-batches; each must be at least 1");
  }
  if (shape.ranks > kComputationsMax / shape.stages_per_rank ||
      shape.micro_batches > kComputationsMax / shape.stages()) {
    return input_error("pipeline schedule ", name(kind), ": ", shape.ranks, " ranks with ",
                       shape.stages_per_rank, " stages each and ", shape.micro_batches,
                       " micro-batches is more than ", kComputationsMax,
                       " forwards in one step; use fewer");
  }
  if (kind == Kind::kInterleaved) {
    const int64_t left = shape.micro_batches % shape.ranks;
    const int64_t below = shape.micro_batches - left;
    if (left != 0) {
      return input_error("pipeline schedule interleaved_1f1b: ", shape.micro_batches,
                         " micro-batches are not divisible by ", shape.ranks, " ranks; use ",
                         below > 0 ? concat(below, " or ") : "", below + shape.ranks,
                         ", or 1f1b with any number");
    }
    return {};
  }
  if (shape.stages_per_rank != (kind == Kind::kZeroBubbleV ? 2 : 1)) {
    return unsuited(kind, shape);
  }
  return {};
}

Result<Pipeline> make_pipeline(Kind kind, const PipelineShape& shape) {
  if (const Status suited = check_shape(kind, shape); !suited) {
    return suited.error();
  }
  Pipeline pipeline = generate(kind, shape);
  const Status whole = check(pipeline);
  CADRE_CHECK(whole.ok(), name(kind), ": ", whole.error().message);
  return pipeline;
}

}  // namespace cadre::schedule
