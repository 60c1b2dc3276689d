#include "nn/linear.h"

#include <vector>

#include "nn/store_test.h"

namespace cadre::nn {
namespace {

using testing::expect_central_differences;
using testing::expect_near;
using testing::values_of;

ParameterSpec matrix(const char* name, int64_t rows, int64_t columns) {
  return {.name = name, .whole = {rows, columns}, .deviation = 0.5f};
}

ParameterSpec bias(const char* name, int64_t width) {
  return {.name = name, .whole = {width}, .deviation = 0.5f, .role = ParameterRole::kVector};
}

// The three ways to store 5 outputs of 3 inputs: as they are, in two parts, transposed.
std::vector<LinearSpec> ways_to_store() {
  return {{.weights = {matrix("w", 5, 3)}, .biases = {bias("b", 5)}},
          {.weights = {matrix("w0", 2, 3), matrix("w1", 3, 3)},
           .biases = {bias("b0", 2), bias("b1", 3)}},
          {.weights = {matrix("w", 3, 5)}, .biases = {bias("b", 5)}, .transposed = true},
          {.weights = {matrix("w", 5, 3)}}};
}

TEST(Linear, ForwardMatchesHandComputedRows) {
  for (const bool transposed : {false, true}) {
    StoreRig x;
    const Linear linear(x.unit, {.weights = {matrix("w", transposed ? 3 : 2, transposed ? 2 : 3)},
                                 .biases = {bias("b", 2)},
                                 .transposed = transposed});
    x.allocate();
    testing::set_values(x.parameter("w").master, transposed ? std::vector<float>{1, 4, 2, 5, 3, 6}
                                                            : std::vector<float>{1, 2, 3, 4, 5, 6});
    testing::set_values(x.parameter("b").master, {10, 20});
    EXPECT_EQ(linear.output_width(), 2);
    EXPECT_EQ(x.parameter("w").spec.transposed, transposed);
    const ParameterUnit::Lease lease(x.unit);
    const Tensor y = x.rig.tensor({2, 2});
    linear.infer(x.rig.context, y, x.rig.tensor({2, 3}, {1, 0, -1, 2, 1, 1}));
    EXPECT_EQ(values_of(y), (std::vector<float>{8, 18, 17, 39}));
  }
}

TEST(Linear, BackwardMatchesCentralDifferencesHoweverTheWeightIsStored) {
  for (const LinearSpec& spec : ways_to_store()) {
    SCOPED_TRACE(concat(spec.weights.size(), " weights, transposed ", spec.transposed));
    StoreRig x;
    const Linear linear(x.unit, spec);
    x.allocate();
    const ParameterUnit::Lease lease(x.unit);
    const Tensor input = x.rig.random({7, 3}, 1);
    const Tensor y = x.rig.tensor({7, 5});
    const Tensor dy = x.rig.random({7, 5}, 2);
    const Tensor dx = x.rig.random({7, 3}, 3);  // overwritten
    Linear::Stash stash;
    linear.forward(x.rig.context, y, input, stash);
    linear.backward_input(x.rig.context, dx, dy, stash);
    linear.backward_weight(x.rig.context, stash);
    EXPECT_TRUE(stash.x_TI.empty() && stash.dy_TO.empty());
    const auto loss = [&] {
      linear.infer(x.rig.context, y, input);
      return testing::dot(y, dy);
    };
    expect_central_differences(dx, input, loss);
    for (const Parameter& parameter : x.store.parameters()) {
      SCOPED_TRACE(parameter.spec.name);
      expect_central_differences(parameter.gradient, parameter.master, loss);
    }
  }
}

// Micro-batches in flight, whose weights' gradients come later and in another order.
TEST(Linear, AddsTheGradientsOfMicroBatchesInAnyOrder) {
  for (const LinearSpec& spec : ways_to_store()) {
    StoreRig apart, whole;
    const Linear two(apart.unit, spec), one(whole.unit, spec);
    apart.allocate();
    whole.allocate();
    const auto run = [](StoreRig& x, const Linear& linear, const Tensor& input, const Tensor& dy,
                        Linear::Stash& stash) {
      const ParameterUnit::Lease lease(x.unit);
      const Tensor y = x.rig.tensor(dy.shape);
      linear.forward(x.rig.context, y, input, stash);
      linear.backward_input(x.rig.context, x.rig.tensor(input.shape), dy, stash);
    };
    const Tensor all = whole.rig.random({8, 3}, 1);
    const Tensor dall = whole.rig.random({8, 5}, 2);
    Linear::Stash first, second, together;
    run(whole, one, all, dall, together);
    one.backward_weight(whole.rig.context, together);
    run(apart, two, all.rows(0, 3), dall.rows(0, 3), first);
    run(apart, two, all.rows(3, 5), dall.rows(3, 5), second);
    two.backward_weight(apart.rig.context, second);  // needs no values: the lease is over
    two.backward_weight(apart.rig.context, first);
    for (const Parameter& parameter : whole.store.parameters()) {
      expect_near(apart.parameter(parameter.spec.name).gradient, parameter.gradient, 1e-6f);
    }
  }
}

TEST(Linear, LeavesFrozenWeightsAlone) {
  StoreRig x(testing::kCpu, {.is_frozen = only("w")});
  const Linear linear(x.unit, {.weights = {matrix("w", 5, 3)}, .biases = {bias("b", 5)}});
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor dy = x.rig.random({4, 5}, 2);
  Linear::Stash stash;
  linear.forward(x.rig.context, x.rig.tensor({4, 5}), x.rig.random({4, 3}, 1), stash);
  linear.backward_input(x.rig.context, x.rig.tensor({4, 3}), dy, stash);
  x.rig.trace.cut();
  linear.backward_weight(x.rig.context, stash);
  EXPECT_EQ(x.rig.trace.cut().ops.size(), 1u);  // the bias
  EXPECT_NE(values_of(x.parameter("b").gradient), std::vector<float>(5, 0.0f));
}

// After a recomputation the input lies elsewhere.
TEST(Linear, FollowsAnInputThatMoved) {
  StoreRig x;
  const Linear linear(x.unit, {.weights = {matrix("w", 5, 3)}});
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({4, 3}, 1);
  const Tensor moved = x.rig.tensor({4, 3}, values_of(input));
  const Tensor dy = x.rig.random({4, 5}, 2);
  Linear::Stash stash;
  linear.forward(x.rig.context, x.rig.tensor({4, 5}), input, stash);
  testing::set_values(input, std::vector<float>(12, 99.0f));
  Linear::move_input(stash, moved);
  linear.backward_input(x.rig.context, x.rig.tensor({4, 3}), dy, stash);
  linear.backward_weight(x.rig.context, stash);
  float sum = 0.0f;
  for (int64_t t = 0; t < 4; ++t) {
    sum += testing::load(dy, t * 5 + 4) * testing::load(moved, t * 3 + 1);
  }
  EXPECT_NEAR(values_of(x.parameter("w").gradient)[4 * 3 + 1], sum, 1e-6f);
}

TEST(Linear, RefusesPassesOutOfOrder) {
  StoreRig x;
  const Linear linear(x.unit, {.weights = {matrix("w", 5, 3)}});
  x.allocate();
  const Tensor input = x.rig.random({4, 3}, 1);
  const Tensor y = x.rig.tensor({4, 5});
  Linear::Stash stash;
  EXPECT_DEATH(linear.infer(x.rig.context, y, input), "w is used outside acquire");
  const ParameterUnit::Lease lease(x.unit);
  EXPECT_DEATH(linear.backward_input(x.rig.context, input, y, stash),
               "w: backward without forward");
  linear.forward(x.rig.context, y, input, stash);
  EXPECT_DEATH(linear.forward(x.rig.context, y, input, stash),
               "w: the slot's micro-batch is still");
  EXPECT_DEATH(linear.backward_weight(x.rig.context, stash), "w: no gradient of y in the stash");
  EXPECT_DEATH(Linear(x.unit, {.weights = {matrix("u", 2, 3)}, .biases = {bias("c", 3)}}),
               "c has 3 values for an output of 2");
}

}  // namespace
}  // namespace cadre::nn
