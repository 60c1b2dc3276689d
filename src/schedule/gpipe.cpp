#include "schedule/gpipe.h"

#include "base/check.h"
#include "schedule/messages.h"

namespace cadre::schedule {

Pipeline gpipe(const PipelineShape& shape) {
  CADRE_CHECK_EQ(shape.stages_per_rank, 1);
  Pipeline pipeline = round_robin(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    for (const Action action : {Action::kForward, Action::kBackward}) {
      for (int64_t m = 0; m < shape.micro_batches; ++m) {
        pipeline.lists[static_cast<size_t>(rank)].push_back(
            {.action = action, .micro_batch = m, .stage = rank});
      }
    }
  }
  add_messages(pipeline);
  return pipeline;
}

}  // namespace cadre::schedule
