#include "schedule/interleaved.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/messages.h"

namespace cadre::schedule {
namespace {

// The i-th forward (or backward) of `rank`: a group of as many micro-batches as there are ranks
// passes the rank's first stage, then its second, ...; backward from its last stage to its first.
Instruction ith(Action action, int64_t i, int64_t rank, const PipelineShape& shape) {
  const int64_t group = i / shape.stages();
  const int64_t turn = i / shape.ranks % shape.stages_per_rank;
  const int64_t own = action == Action::kForward ? turn : shape.stages_per_rank - 1 - turn;
  return {.action = action,
          .micro_batch = group * shape.ranks + i % shape.ranks,
          .stage = own * shape.ranks + rank};
}

std::vector<Instruction> list_of(int64_t rank, const PipelineShape& shape) {
  const int64_t count = shape.micro_batches * shape.stages_per_rank;
  // Until the first micro-batch has passed all stages but those of the ranks above, and has come
  // back through those.
  const int64_t ahead =
      std::min(count, (shape.stages_per_rank - 1) * shape.ranks + 2 * (shape.ranks - 1 - rank) + 1);
  std::vector<Instruction> list;
  for (int64_t i = 0; i < ahead; ++i) {
    list.push_back(ith(Action::kForward, i, rank, shape));
  }
  for (int64_t i = 0; i < count; ++i) {
    list.push_back(ith(Action::kBackward, i, rank, shape));
    if (i + ahead < count) {
      list.push_back(ith(Action::kForward, i + ahead, rank, shape));
    }
  }
  return list;
}

}  // namespace

Pipeline interleaved_1f1b(const PipelineShape& shape) {
  CADRE_CHECK(shape.micro_batches % shape.ranks == 0, shape.micro_batches, " micro-batches, ",
              shape.ranks, " ranks");
  Pipeline pipeline = round_robin(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    pipeline.lists[static_cast<size_t>(rank)] = list_of(rank, shape);
  }
  add_messages(pipeline);
  return pipeline;
}

}  // namespace cadre::schedule
