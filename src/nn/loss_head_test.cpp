// The head against the formula in double, its gradients against central differences, and that
// neither chunks nor ties change what comes out.

#include "nn/loss_head.h"

#include <cmath>
#include <vector>

#include "kernels/cross_entropy.h"
#include "nn/embedding.h"
#include "nn/store_test.h"

namespace cadre::nn {
namespace {

using kernels::kIgnoredTarget;
using testing::expect_central_differences;
using testing::expect_near;
using testing::values_of;

const LossHead::Agree kAlone = [](Context&, Tensor, Tensor, Tensor) {};

struct Sums {
  explicit Sums(testing::Rig& rig)
      : loss(rig.tensor({1})), z(rig.tensor({1})), count(rig.tensor({1})) {}

  LossSums tensors() const { return {.loss_1 = loss, .z_1 = z, .count_1 = count}; }
  double value(const Tensor& one) const { return static_cast<double>(values_of(one)[0]); }

  Tensor loss, z, count;
};

ParameterSpec head(int64_t vocabulary, int64_t width) {
  return {.name = "head.weight",
          .whole = {vocabulary, width},
          .deviation = 1.0f,
          .role = ParameterRole::kHead};
}

TEST(LossHead, SumsAreThoseOfTheFormula) {
  StoreRig x;
  const LossHead loss_head(x.unit, head(7, 3));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const std::vector<int32_t> targets = {6, kIgnoredTarget, 0, 3, 3};
  const Tensor input = x.rig.random({5, 3}, 1);
  const Sums sums(x.rig);
  loss_head.forward(x.rig.context, x.rig.activations, sums.tensors(), input,
                    x.rig.ids({5}, targets), kAlone);
  const std::vector<float> values = values_of(input);
  const std::vector<float> weight = values_of(x.parameter("head.weight").master);
  double loss = 0.0, z = 0.0;
  for (size_t t = 0; t < 5; ++t) {
    double sum = 0.0, chosen = 0.0;
    for (size_t v = 0; v < 7; ++v) {
      double logit = 0.0;
      for (size_t d = 0; d < 3; ++d) {
        logit += static_cast<double>(values[3 * t + d]) * static_cast<double>(weight[3 * v + d]);
      }
      sum += std::exp(logit);
      chosen = static_cast<int32_t>(v) == targets[t] ? logit : chosen;
    }
    if (targets[t] != kIgnoredTarget) {
      loss += std::log(sum) - chosen;
      z += std::log(sum) * std::log(sum);
    }
  }
  EXPECT_EQ(sums.value(sums.count), 4.0);
  EXPECT_NEAR(sums.value(sums.loss), loss, 1e-5);
  EXPECT_NEAR(sums.value(sums.z), z, 1e-5);
  // Sums go on from micro-batch to micro-batch.
  loss_head.forward(x.rig.context, x.rig.activations, sums.tensors(), input,
                    x.rig.ids({5}, targets), kAlone);
  EXPECT_EQ(sums.value(sums.count), 8.0);
  EXPECT_NEAR(sums.value(sums.loss), 2.0 * loss, 2e-5);
}

TEST(LossHead, BackwardMatchesCentralDifferences) {
  StoreRig x;
  const LossHead loss_head(x.unit, head(7, 3));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({5, 3}, 1);
  const Tensor targets = x.rig.ids({5}, {6, kIgnoredTarget, 0, 3, 3});
  const Tensor dx = x.rig.random({5, 3}, 2);  // overwritten
  const Sums sums(x.rig);
  loss_head.forward_backward(x.rig.context, x.rig.activations, sums.tensors(), dx, input, targets,
                             {.gradient_scale = 4.0f, .z_loss = 0.25f}, kAlone);
  const auto loss = [&] {
    const Sums again(x.rig);
    loss_head.forward(x.rig.context, x.rig.activations, again.tensors(), input, targets, kAlone);
    return 4.0 * (again.value(again.loss) + 0.25 * again.value(again.z));
  };
  expect_central_differences(dx, input, loss, 1e-2f, 5e-3);
  expect_central_differences(x.parameter("head.weight").gradient, x.parameter("head.weight").master,
                             loss, 1e-2f, 5e-3);
  EXPECT_EQ(values_of(dx.rows(1, 1)), std::vector<float>(3, 0.0f));  // an ignored target
}

// 70 tokens of a large vocabulary are two chunks, halves of them one each.
TEST(LossHead, ChunksDoNotChangeWhatComesOut) {
  constexpr int64_t kVocabulary = (int64_t{64} << 20) / 4 / 64 + 1;
  StoreRig x({.kind = DeviceKind::kCpu, .target = detect_cpu_target()}, {},
             {.arena_bytes = int64_t{160} << 20});
  const LossHead loss_head(x.unit, head(kVocabulary, 2));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < 70; ++t) {
    ids.push_back(t * 3001);
  }
  const Tensor input = x.rig.random({70, 2}, 1);
  const Tensor targets = x.rig.ids({70}, ids);
  const Tensor dx = x.rig.tensor({70, 2});
  const Tensor dx_parts = x.rig.tensor({70, 2});
  const Sums whole(x.rig), parts(x.rig);
  const auto run = [&](const Sums& sums, const Tensor& gradient, int64_t first, int64_t count) {
    loss_head.forward_backward(x.rig.context, x.rig.activations, sums.tensors(),
                               gradient.rows(first, count), input.rows(first, count),
                               targets.slice({.first = {first}, .size = {count}}), {}, kAlone);
  };
  run(whole, dx, 0, 70);
  const Tensor gradient = x.parameter("head.weight").gradient;
  const std::vector<float> of_whole = values_of(gradient);
  testing::set_values(gradient, std::vector<float>(of_whole.size(), 0.0f));
  run(parts, dx_parts, 0, 35);
  run(parts, dx_parts, 35, 35);
  EXPECT_EQ(whole.value(whole.count), 70.0);
  EXPECT_NEAR(whole.value(whole.loss), parts.value(parts.loss), 1e-3);
  expect_near(dx, dx_parts, 1e-5f);
  expect_near(x.rig.tensor(gradient.shape, of_whole), gradient, 1e-5f);
}

// Both roles of a tied matrix add to one gradient.
TEST(LossHead, ATiedMatrixCollectsTheGradientsOfBothRoles) {
  const ParameterSpec table{.name = "embed.weight",
                            .whole = {7, 3},
                            .deviation = 1.0f,
                            .role = ParameterRole::kEmbedding};
  StoreRig x;
  const Embedding embedding(x.unit, table);
  const LossHead loss_head(x.unit, table);
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor ids = x.rig.ids({4}, {1, 6, 1, 0});
  const Tensor targets = x.rig.ids({4}, {6, 1, 5, 2});
  const Tensor input = x.rig.tensor({4, 3});
  const Tensor dx = x.rig.tensor({4, 3});
  const Sums sums(x.rig);
  Embedding::Stash stash;
  embedding.forward(x.rig.context, input, ids, stash);
  loss_head.forward_backward(x.rig.context, x.rig.activations, sums.tensors(), dx, input, targets,
                             {}, kAlone);
  embedding.backward_input(dx, stash);
  embedding.backward_weight(x.rig.context, stash);
  const auto loss = [&] {
    const Sums again(x.rig);
    embedding.infer(x.rig.context, input, ids);
    loss_head.forward(x.rig.context, x.rig.activations, again.tensors(), input, targets, kAlone);
    return again.value(again.loss);
  };
  expect_central_differences(x.parameter("embed.weight").gradient,
                             x.parameter("embed.weight").master, loss, 1e-2f, 5e-3);
}

TEST(LossHead, AFrozenHeadPassesTheGradientOn) {
  std::vector<std::vector<float>> results;
  for (const bool frozen : {false, true}) {
    StoreRig x(testing::kCpu, {.is_frozen = [frozen](std::string_view) { return frozen; }});
    const LossHead loss_head(x.unit, head(7, 3));
    x.allocate();
    const ParameterUnit::Lease lease(x.unit);
    const Tensor dx = x.rig.tensor({2, 3});
    loss_head.forward_backward(x.rig.context, x.rig.activations, Sums(x.rig).tensors(), dx,
                               x.rig.random({2, 3}, 1), x.rig.ids({2}, {4, 2}), {}, kAlone);
    results.push_back(values_of(dx));
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace cadre::nn
