// A whole model, from ids to the loss, against central differences: embeddings, positions, the
// final norm, the head, tied and not.

#include "model/stage.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/block_test.h"

namespace cadre::model {
namespace {

using testing::values_of;

struct StageRig {
  StageRig(const BlockCase& c, Recompute recompute, nn::ParameterStore::Options options = {})
      : x(testing::kCpu, std::move(options)),
        mesh(parallel::single_process_mesh()),
        batch(x.rig, c.documents),
        stage(c.spec, x.store, mesh, {.recompute = recompute, .positions = 16}),
        loss(x.rig.tensor({1})),
        z(x.rig.tensor({1})),
        count(x.rig.tensor({1})) {
    x.allocate();
    disturb_vectors(x);
    stage.prepare(x.rig.context, x.rig.activations);
  }

  nn::LossSums sums() const { return {.loss_1 = loss, .z_1 = z, .count_1 = count}; }

  void clear_sums() const {
    for (const Tensor& one : {loss, z, count}) {
      testing::set_values(one, {0.0f});
    }
  }

  nn::StoreRig x;
  parallel::Mesh mesh;
  SmallBatch batch;
  Stage stage;
  Tensor loss, z, count;
};

std::vector<BlockCase> tied_and_not() {
  std::vector<BlockCase> cases = block_cases();
  for (BlockCase& c : block_cases()) {
    c.name += "_tied";
    c.spec.tie_word_embeddings = true;
    cases.push_back(std::move(c));
  }
  return cases;
}

class StageTest : public ::testing::TestWithParam<BlockCase> {};

std::string name_of_case(const ::testing::TestParamInfo<BlockCase>& info_of_case) {
  return info_of_case.param.name;
}

INSTANTIATE_TEST_SUITE_P(Options, StageTest, ::testing::ValuesIn(tied_and_not()), name_of_case);

// Some elements of every tensor. (All are done for a block and for each layer.)
TEST_P(StageTest, GradientsMatchCentralDifferences) {
  StageRig rig(GetParam(), Recompute::kSelective);
  Context& context = rig.x.rig.context;
  const Batch batch = rig.batch.batch();
  Stage::Slot slot;
  rig.stage.forward(context, rig.x.rig.activations, slot, batch, rig.sums(), {});
  rig.stage.backward(context, rig.x.rig.activations, slot);
  EXPECT_EQ(values_of(rig.count)[0], 12.0f);
  // The forward pass below goes on adding to those of the head.
  std::vector<Tensor> gradients;
  for (const nn::Parameter& parameter : rig.x.store.parameters()) {
    gradients.push_back(rig.x.rig.tensor(parameter.spec.whole, values_of(parameter.gradient)));
  }
  const auto loss = [&] {
    rig.clear_sums();
    Stage::Slot again;
    rig.stage.forward(context, rig.x.rig.activations, again, batch, rig.sums(), {});
    return static_cast<double>(values_of(rig.loss)[0]);
  };
  size_t next = 0;
  for (const nn::Parameter& parameter : rig.x.store.parameters()) {
    SCOPED_TRACE(parameter.spec.name);
    const Tensor gradient = gradients[next++];
    // Another row in every tensor, and the last of it.
    const int64_t rows = parameter.master.shape[0];
    for (const int64_t row : {static_cast<int64_t>(parameter.spec.name.size()) % rows, rows - 1}) {
      Box box = all_of(parameter.master.shape);
      box.first[0] = row;
      box.size[0] = 1;
      expect_derivatives(gradient.slice(box), parameter.master.slice(box), loss);
    }
  }
}

struct StepOfStage {
  std::map<std::string, std::vector<float>> gradients;
  int64_t kept_bytes = 0;  // between the passes
};

StepOfStage step_of_stage(const BlockCase& c, Recompute recompute,
                          const std::function<bool(std::string_view)>& is_frozen) {
  StageRig rig(c, recompute, {.is_frozen = is_frozen});
  Arena& activations = rig.x.rig.activations;
  const Batch batch = rig.batch.batch();
  const int64_t before = activations.used_bytes();
  StepOfStage step;
  {
    Stage::Slot slot;
    rig.stage.forward(rig.x.rig.context, activations, slot, batch, rig.sums(), {});
    step.kept_bytes = activations.used_bytes() - before;
    rig.stage.backward(rig.x.rig.context, activations, slot);
  }
  EXPECT_EQ(activations.used_bytes(), before);
  for (const nn::Parameter& parameter : rig.x.store.parameters()) {
    if (!parameter.gradient.empty()) {
      step.gradients[parameter.spec.name] = values_of(parameter.gradient);
    }
  }
  return step;
}

bool contains_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

// The embedding and the lower block: no gradient has to get there. Above them the matrices that are
// stacked or stand alone: their inputs are not kept.
TEST_P(StageTest, KeepsNothingForFrozenWeightsAndChangesNoOtherGradient) {
  const auto lower = [](std::string_view name) {
    return contains_any(name, {"embed", "wte", "wpe", ".0."});
  };
  const auto matrices = [](std::string_view name) {
    return contains_any(name, {"_proj.weight", "c_attn.weight", "c_fc.weight", "c_proj.weight"});
  };
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const StepOfStage all = step_of_stage(GetParam(), recompute, [](auto) { return false; });
    const StepOfStage upper = step_of_stage(GetParam(), recompute, lower);
    const StepOfStage vectors = step_of_stage(GetParam(), recompute, matrices);
    EXPECT_LT(upper.kept_bytes, all.kept_bytes);
    if (recompute == Recompute::kNone) {
      EXPECT_LT(vectors.kept_bytes, all.kept_bytes);
    }
    for (const auto& [step, frozen] :
         {std::pair(&upper, std::function<bool(std::string_view)>(lower)), {&vectors, matrices}}) {
      for (const auto& [name, values] : all.gradients) {
        if (frozen(name)) {
          EXPECT_FALSE(step->gradients.contains(name)) << name;
        } else {
          ASSERT_TRUE(step->gradients.contains(name)) << name;
          EXPECT_EQ(step->gradients.at(name), values) << name;
        }
      }
    }
  }
}

TEST_P(StageTest, EvaluatesToTheLossWithoutDropout) {
  StageRig rig(GetParam(), Recompute::kNone);
  Context& context = rig.x.rig.context;
  Batch batch = rig.batch.batch();
  batch.training = false;
  Stage::Slot slot;
  rig.stage.forward(context, rig.x.rig.activations, slot, batch, rig.sums(), {});
  const float of_training = values_of(rig.loss)[0];
  rig.clear_sums();
  batch.training = true;  // evaluate() does not care
  rig.stage.evaluate(context, rig.x.rig.activations, batch, rig.sums());
  EXPECT_EQ(values_of(rig.loss)[0], of_training);
}

TEST_P(StageTest, HasAHeadOfItsOwnUnlessItIsTied) {
  StageRig rig(GetParam(), Recompute::kNone);
  // gate and up have as many rows as the vocabulary: count what is no hidden matrix.
  int64_t of_vocabulary = 0;
  for (const nn::Parameter& parameter : rig.x.store.parameters()) {
    const bool hidden = parameter.spec.role == nn::ParameterRole::kHiddenMatrix;
    of_vocabulary += !hidden && parameter.spec.whole == Shape{11, 15} ? 1 : 0;
  }
  EXPECT_EQ(of_vocabulary, GetParam().spec.tie_word_embeddings ? 1 : 2);
}

}  // namespace
}  // namespace cadre::model
