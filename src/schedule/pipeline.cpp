#include "schedule/pipeline.h"

#include "base/check.h"

namespace cadre::schedule {

bool computes(Action action) {
  return !sends(action) && !receives(action);
}

bool sends(Action action) {
  return action == Action::kSendActivation || action == Action::kSendGradient;
}

bool receives(Action action) {
  return action == Action::kReceiveActivation || action == Action::kReceiveGradient;
}

std::string_view name(Action action) {
  switch (action) {
    case Action::kForward:
      return "forward";
    case Action::kBackward:
      return "backward";
    case Action::kBackwardInput:
      return "backward of the input";
    case Action::kBackwardWeight:
      return "backward of the weights";
    case Action::kSendActivation:
      return "send of the activation";
    case Action::kReceiveActivation:
      return "receive of the activation";
    case Action::kSendGradient:
      return "send of the gradient";
    case Action::kReceiveGradient:
      return "receive of the gradient";
  }
  return "?";
}

std::string describe(const Instruction& instruction) {
  std::string text = concat(name(instruction.action), " of micro-batch ", instruction.micro_batch,
                            " on stage ", instruction.stage);
  if (!computes(instruction.action)) {
    text += concat(sends(instruction.action) ? " to" : " from", " stage ", instruction.peer);
  }
  return text;
}

namespace {

Pipeline without_instructions(const PipelineShape& shape) {
  CADRE_CHECK(shape.ranks > 0 && shape.stages_per_rank > 0 && shape.micro_batches > 0, shape.ranks,
              " ranks, ", shape.stages_per_rank, " stages each, ", shape.micro_batches,
              " micro-batches");
  Pipeline pipeline{.micro_batches = shape.micro_batches, .rank_of_stage = {}, .lists = {}};
  pipeline.lists.resize(static_cast<size_t>(shape.ranks));
  return pipeline;
}

}  // namespace

Pipeline round_robin(const PipelineShape& shape) {
  Pipeline pipeline = without_instructions(shape);
  for (int64_t stage = 0; stage < shape.stages(); ++stage) {
    pipeline.rank_of_stage.push_back(stage % shape.ranks);
  }
  return pipeline;
}

Pipeline down_and_up(const PipelineShape& shape) {
  CADRE_CHECK_EQ(shape.stages_per_rank, 2);
  Pipeline pipeline = without_instructions(shape);
  for (int64_t stage = 0; stage < shape.stages(); ++stage) {
    pipeline.rank_of_stage.push_back(stage < shape.ranks ? stage : shape.stages() - 1 - stage);
  }
  return pipeline;
}

std::vector<Instruction> single_stage(int64_t micro_batches) {
  std::vector<Instruction> list;
  for (int64_t m = 0; m < micro_batches; ++m) {
    list.push_back({.action = Action::kForward, .micro_batch = m});
    list.push_back({.action = Action::kBackward, .micro_batch = m});
  }
  return list;
}

}  // namespace cadre::schedule
