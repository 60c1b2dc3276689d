#include "schedule/zero_bubble.h"

#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/messages.h"

namespace cadre::schedule {
namespace {

// The work of a rank on one of its stages: each part goes through the micro-batches in order.
// A call for which there is no work left, or whose input this rank has not made yet, does nothing.
class StageWork {
 public:
  StageWork(std::vector<Instruction>& list, int64_t stage, int64_t micro_batches)
      : list_(list), stage_(stage), micro_batches_(micro_batches) {}

  void forward() { next(Action::kForward, forwards_, micro_batches_); }
  void backward_input() { next(Action::kBackwardInput, inputs_, forwards_); }
  void backward_weight() { next(Action::kBackwardWeight, weights_, inputs_); }
  void backward() {
    const int64_t before = inputs_;
    backward_input();
    if (inputs_ > before) {
      backward_weight();
    }
  }

  int64_t forwards() const { return forwards_; }
  int64_t inputs() const { return inputs_; }
  int64_t weights() const { return weights_; }

 private:
  void next(Action action, int64_t& done, int64_t limit) {
    if (done < limit) {
      list_.push_back({.action = action, .micro_batch = done, .stage = stage_});
      ++done;
    }
  }

  std::vector<Instruction>& list_;
  int64_t stage_;
  int64_t micro_batches_;
  int64_t forwards_ = 0;
  int64_t inputs_ = 0;
  int64_t weights_ = 0;
};

// 1F1B of forwards and input halves. Rank r is r weight halves behind: it has r fewer forwards in
// flight than rank 0, so that the memory is the same, and the work that is left over fills the end
// of the step, where 1F1B waits.
void write_h1(std::vector<Instruction>& list, int64_t rank, const PipelineShape& shape) {
  StageWork work(list, rank, shape.micro_batches);
  for (int64_t i = 0; i < shape.ranks - rank; ++i) {
    work.forward();
  }
  for (int64_t m = 0; m < shape.micro_batches; ++m) {
    work.backward_input();
    if (m >= rank) {
      work.backward_weight();
    }
    work.forward();
  }
  while (work.weights() < shape.micro_batches) {
    work.backward_weight();
  }
}

// At f = b = w = 1, rank r begins at r; its lower stage is the (r+1)-th of the model, its upper the
// (r+1)-th from the end.
void write_v(std::vector<Instruction>& list, int64_t rank, const PipelineShape& shape) {
  const int64_t micro_batches = shape.micro_batches;
  StageWork lower(list, rank, micro_batches);
  StageWork upper(list, shape.stages() - 1 - rank, micro_batches);

  // Until the first micro-batch has come back up to this rank.
  for (int64_t i = 0; i < 2 * (shape.ranks - rank) - 1; ++i) {
    lower.forward();
  }
  // Until its gradient has come down from the first rank, which has the end of the model ...
  for (int64_t i = 0; i < rank; ++i) {
    upper.forward();
    lower.forward();
  }
  // ... and from here through the ranks below.
  for (int64_t i = 0; i < shape.ranks - rank; ++i) {
    upper.forward();
    upper.backward();
  }
  // As much comes in as goes out.
  while (lower.forwards() < micro_batches || upper.forwards() < lower.forwards()) {
    lower.forward();
    lower.backward();
    upper.forward();
    upper.backward();
  }
  // The pipeline empties: the lower a rank is, the more weight halves it puts off, because others
  // wait for its input halves.
  for (int64_t i = 0; i < rank; ++i) {
    lower.backward_input();
    upper.backward_input();
  }
  while (lower.inputs() < micro_batches || upper.inputs() < micro_batches) {
    upper.backward_input();
    lower.backward_input();
    lower.backward_weight();
  }
  while (upper.weights() < micro_batches) {
    upper.backward_weight();
  }
  while (lower.weights() < micro_batches) {
    lower.backward_weight();
  }
}

// Moves every weight half to the first moment at which its rank would wait otherwise, at
// f = b = w = 1. In each tick of a clock a rank does the next input half or forward of its list, if
// that can run, or else the weight half that has been waiting for longest.
class WeightHalvesInGaps {
 public:
  explicit WeightHalvesInGaps(const Pipeline& pipeline) : pipeline_(pipeline) {
    const auto count = static_cast<size_t>(pipeline.stages() * pipeline.micro_batches);
    forward_at_.resize(count, kNever);
    input_at_.resize(count, kNever);
    for (const std::vector<Instruction>& list : pipeline.lists) {
      ranks_.emplace_back();
      for (const Instruction& instruction : list) {
        if (instruction.action != Action::kBackwardWeight) {
          ranks_.back().next.push_back(instruction);
        }
      }
    }
  }

  std::vector<std::vector<Instruction>> lists() {
    bool working = true;
    for (int64_t now = 0; working; ++now) {
      working = false;
      for (Rank& rank : ranks_) {
        tick(rank, now);
        working = working || !rank.next.empty() || !rank.weights.empty();
      }
    }
    std::vector<std::vector<Instruction>> lists;
    for (Rank& rank : ranks_) {
      lists.push_back(std::move(rank.list));
    }
    return lists;
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Rank {
    std::deque<Instruction> next;
    std::deque<Instruction> weights;  // halves that can run
    std::vector<Instruction> list;
  };

  size_t index(const Instruction& instruction, int64_t stage) const {
    return static_cast<size_t>(stage * pipeline_.micro_batches + instruction.micro_batch);
  }

  // Whether what `instruction` reads was there before this tick.
  bool can_run(const Instruction& instruction, int64_t now) const {
    const int64_t stage = instruction.stage;
    if (instruction.action == Action::kForward) {
      return stage == 0 || forward_at_[index(instruction, stage - 1)] < now;
    }
    return forward_at_[index(instruction, stage)] < now &&
           (stage + 1 == pipeline_.stages() || input_at_[index(instruction, stage + 1)] < now);
  }

  void tick(Rank& rank, int64_t now) {
    if (!rank.next.empty() && can_run(rank.next.front(), now)) {
      const Instruction instruction = rank.next.front();
      rank.next.pop_front();
      rank.list.push_back(instruction);
      const bool forward = instruction.action == Action::kForward;
      (forward ? forward_at_ : input_at_)[index(instruction, instruction.stage)] = now;
      if (!forward) {
        rank.weights.push_back(instruction);
        rank.weights.back().action = Action::kBackwardWeight;
      }
    } else if (!rank.weights.empty()) {
      rank.list.push_back(rank.weights.front());
      rank.weights.pop_front();
    }
  }

  const Pipeline& pipeline_;
  std::vector<Rank> ranks_;
  std::vector<int64_t> forward_at_;  // tick, by stage and micro-batch
  std::vector<int64_t> input_at_;
};

}  // namespace

Pipeline zb_h1(const PipelineShape& shape) {
  CADRE_CHECK_EQ(shape.stages_per_rank, 1);
  Pipeline pipeline = round_robin(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    write_h1(pipeline.lists[static_cast<size_t>(rank)], rank, shape);
  }
  add_messages(pipeline);
  return pipeline;
}

Pipeline zb_v(const PipelineShape& shape) {
  Pipeline pipeline = down_and_up(shape);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    write_v(pipeline.lists[static_cast<size_t>(rank)], rank, shape);
  }
  // There are slots for all micro-batches of the step, so that no weight half has to free one.
  if (shape.micro_batches <= shape.ranks) {
    pipeline.lists = WeightHalvesInGaps(pipeline).lists();
  }
  add_messages(pipeline);
  return pipeline;
}

}  // namespace cadre::schedule
