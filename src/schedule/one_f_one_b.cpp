#include "schedule/one_f_one_b.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/messages.h"

namespace cadre::schedule {
namespace {

std::vector<Instruction> list_of(int64_t rank, const PipelineShape& shape) {
  std::vector<Instruction> list;
  // As many forwards as the first micro-batch needs to come to the last rank and back.
  const int64_t ahead = std::min(shape.micro_batches, shape.ranks - rank);
  for (int64_t m = 0; m < ahead; ++m) {
    list.push_back({.action = Action::kForward, .micro_batch = m, .stage = rank});
  }
  for (int64_t m = 0; m < shape.micro_batches; ++m) {
    list.push_back({.action = Action::kBackward, .micro_batch = m, .stage = rank});
    if (m + ahead < shape.micro_batches) {
      list.push_back({.action = Action::kForward, .micro_batch = m + ahead, .stage = rank});
    }
  }
  return list;
}

}  // namespace

Pipeline one_f_one_b(const PipelineShape& shape) {
  CADRE_CHECK_EQ(shape.stages_per_rank, 1);
  Pipeline pipeline = round_robin(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    pipeline.lists[static_cast<size_t>(rank)] = list_of(rank, shape);
  }
  add_messages(pipeline);
  return pipeline;
}

}  // namespace cadre::schedule
