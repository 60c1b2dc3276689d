// For tests: pipelines of every kind and many sizes, and pipelines in random order.

#pragma once

#include <string>
#include <vector>

#include "schedule/generators.h"
#include "schedule/messages.h"

namespace cadre::schedule {

struct NamedPipeline {
  std::string name;
  Kind kind = Kind::kGpipe;
  PipelineShape shape;
  Pipeline pipeline;
};

// All that exist with up to 6 ranks, 3 stages each and 13 micro-batches.
inline std::vector<NamedPipeline> every_pipeline() {
  std::vector<NamedPipeline> all;
  for (const Kind kind : kKinds) {
    for (int64_t ranks = 1; ranks <= 6; ++ranks) {
      for (int64_t stages_per_rank = 1; stages_per_rank <= 3; ++stages_per_rank) {
        for (int64_t micro_batches = 1; micro_batches <= 13; ++micro_batches) {
          const PipelineShape shape{
              .ranks = ranks, .stages_per_rank = stages_per_rank, .micro_batches = micro_batches};
          if (check_shape(kind, shape)) {
            all.push_back({.name = concat(name(kind), ", ", ranks, " ranks, ", stages_per_rank,
                                          " stages each, ", micro_batches, " micro-batches"),
                           .kind = kind,
                           .shape = shape,
                           .pipeline = *make_pipeline(kind, shape)});
          }
        }
      }
    }
  }
  return all;
}

// Numbers below a bound, the same on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t bound) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((seed_ >> 33) % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t seed_;
};

// A step in an order that nobody designed: again and again some computation that can run is given
// to its rank. Both forms of the backward pass occur.
inline Pipeline random_pipeline(Dice& dice) {
  const PipelineShape shape{.ranks = 1 + dice.below(4),
                            .stages_per_rank = 1 + dice.below(2),
                            .micro_batches = 1 + dice.below(5)};
  const bool vee = shape.stages_per_rank == 2 && dice.below(2) == 0;
  Pipeline pipeline = vee ? down_and_up(shape) : round_robin(shape);
  // By stage and micro-batch: 0 nothing yet, 1 forward, 2 backward of the input, 3 all.
  std::vector<std::vector<int>> done(static_cast<size_t>(shape.stages()),
                                     std::vector<int>(static_cast<size_t>(shape.micro_batches)));
  int64_t left = shape.stages() * shape.micro_batches;
  while (left > 0) {
    const int64_t stage = dice.below(shape.stages());
    const int64_t micro_batch = dice.below(shape.micro_batches);
    const auto s = static_cast<size_t>(stage);
    const auto m = static_cast<size_t>(micro_batch);
    std::vector<Instruction>& list = pipeline.lists[static_cast<size_t>(pipeline.rank_of(stage))];
    Instruction instruction{.micro_batch = micro_batch, .stage = stage};
    if (done[s][m] == 0 && (stage == 0 || done[s - 1][m] >= 1)) {
      instruction.action = Action::kForward;
      done[s][m] = 1;
    } else if (done[s][m] == 1 && (stage + 1 == shape.stages() || done[s + 1][m] >= 2)) {
      const bool whole = dice.below(3) == 0;
      instruction.action = whole ? Action::kBackward : Action::kBackwardInput;
      done[s][m] = whole ? 3 : 2;
    } else if (done[s][m] == 2) {
      instruction.action = Action::kBackwardWeight;
      done[s][m] = 3;
    } else {
      continue;
    }
    list.push_back(instruction);
    left -= done[s][m] == 3 ? 1 : 0;
  }
  add_messages(pipeline);
  return pipeline;
}

}  // namespace cadre::schedule
