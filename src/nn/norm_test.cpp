#include "nn/norm.h"

#include <cmath>
#include <string>
#include <vector>

#include "nn/store_test.h"

namespace cadre::nn {
namespace {

using testing::expect_central_differences;
using testing::expect_near;
using testing::values_of;

Norm::Spec spec_of(NormKind kind, int64_t width) {
  const auto vector = [width](const char* name) {
    return ParameterSpec{
        .name = name, .whole = {width}, .deviation = 1.0f, .role = ParameterRole::kVector};
  };
  return {.kind = kind, .epsilon = 0.01, .weight = vector("weight"), .bias = vector("bias")};
}

// The formula on rows, in double.
std::vector<float> expected(NormKind kind, StoreRig& x, ConstTensor input) {
  const std::vector<float> weight = values_of(x.parameter("weight").master);
  const std::vector<float> bias = kind == NormKind::kLayer
                                      ? values_of(x.parameter("bias").master)
                                      : std::vector<float>(weight.size(), 0.0f);
  const std::vector<float> values = values_of(input);
  const size_t width = weight.size();
  std::vector<float> result;
  for (size_t first = 0; first < values.size(); first += width) {
    double mean = 0.0, squares = 0.0;
    for (size_t d = 0; d < width; ++d) {
      mean += static_cast<double>(values[first + d]) / static_cast<double>(width);
    }
    mean = kind == NormKind::kLayer ? mean : 0.0;
    for (size_t d = 0; d < width; ++d) {
      squares += std::pow(static_cast<double>(values[first + d]) - mean, 2.0);
    }
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(width) + 0.01);
    for (size_t d = 0; d < width; ++d) {
      const double normal = (static_cast<double>(values[first + d]) - mean) * rstd;
      result.push_back(static_cast<float>(normal * static_cast<double>(weight[d]) +
                                          static_cast<double>(bias[d])));
    }
  }
  return result;
}

class NormTest : public ::testing::TestWithParam<NormKind> {};
std::string name_of_kind(const ::testing::TestParamInfo<NormKind>& info) {
  return info.param == NormKind::kRms ? "rms" : "layer";
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormTest, ::testing::Values(NormKind::kRms, NormKind::kLayer),
                         name_of_kind);

TEST_P(NormTest, ForwardMatchesTheFormula) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 5));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({7, 5}, 1);
  const Tensor y = x.rig.tensor({7, 5});
  Norm::Stash stash;
  norm.forward(x.rig.context, x.rig.activations, y, input, stash);
  expect_near(y, x.rig.tensor({7, 5}, expected(GetParam(), x, input)), 2e-6f);
}

TEST_P(NormTest, AddsTheBranchFirst) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 5));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor residual = x.rig.random({7, 5}, 1);
  const Tensor branch = x.rig.random({7, 5}, 2);  // becomes the sum
  std::vector<float> sum = values_of(residual);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += values_of(branch)[i];
  }
  const Tensor y = x.rig.tensor({7, 5});
  Norm::Stash stash;
  norm.add_forward(x.rig.context, x.rig.activations, branch, y, residual, branch, stash);
  EXPECT_EQ(values_of(branch), sum);
  expect_near(y, x.rig.tensor({7, 5}, expected(GetParam(), x, branch)), 2e-6f);
  EXPECT_EQ(stash.x_TD.data, branch.data);  // what the backward pass reads
}

TEST_P(NormTest, BackwardMatchesCentralDifferences) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 5));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({7, 5}, 1);
  const Tensor y = x.rig.tensor({7, 5});
  const Tensor dy = x.rig.random({7, 5}, 2);
  // x goes on beside the norm, as in a residual stream.
  const Tensor dresidual = x.rig.random({7, 5}, 3);
  const Tensor dx = x.rig.random({7, 5}, 4);  // overwritten
  Norm::Stash stash;
  norm.forward(x.rig.context, x.rig.activations, y, input, stash);
  norm.backward(x.rig.context, dx, dy, dresidual, stash);
  EXPECT_TRUE(stash.x_TD.empty() && stash.rstd_T.empty() && stash.mean_T.empty());
  const auto loss = [&] {
    Norm::Stash again;
    norm.forward(x.rig.context, x.rig.activations, y, input, again);
    return testing::dot(y, dy) + testing::dot(input, dresidual);
  };
  expect_central_differences(dx, input, loss);
  for (const Parameter& parameter : x.store.parameters()) {
    SCOPED_TRACE(parameter.spec.name);
    expect_central_differences(parameter.gradient, parameter.master, loss);
  }
}

// Heads of q and k: rows are [token, head], and lie inside fused rows.
TEST_P(NormTest, NormalisesHeadsInsideWiderRows) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 6));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor rows = x.rig.random({5, 6 * 4}, 1);
  const Tensor heads = rows.columns(6, 6 * 2).split(1, 2);  // two of four
  const Tensor drows = x.rig.random({5, 6 * 4}, 2);
  const Tensor dheads = drows.columns(6, 6 * 2).split(1, 2);
  const Tensor y = x.rig.tensor({5, 2, 6});
  Norm::Stash stash;
  norm.forward(x.rig.context, x.rig.activations, y, heads, stash);
  EXPECT_EQ(stash.rstd_T.view().shape, (Shape{5, 2}));
  expect_near(y, x.rig.tensor({5, 2, 6}, expected(GetParam(), x, heads)), 2e-6f);

  const Tensor dy = x.rig.tensor({5, 2, 6}, values_of(dheads));
  norm.backward(x.rig.context, dheads, dheads, ConstTensor(), stash);  // in place
  const auto loss = [&] {
    Norm::Stash again;
    norm.forward(x.rig.context, x.rig.activations, y, heads, again);
    return testing::dot(y, dy);
  };
  expect_central_differences(dheads, heads, loss);
}

TEST_P(NormTest, GradientsOfMicroBatchesAdd) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 5));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({6, 5}, 1);
  const Tensor dy = x.rig.random({6, 5}, 2);
  std::vector<float> once;
  for (int pass = 1; pass <= 2; ++pass) {
    Norm::Stash stash;
    norm.forward(x.rig.context, x.rig.activations, x.rig.tensor({6, 5}), input, stash);
    norm.backward(x.rig.context, x.rig.tensor({6, 5}), dy, ConstTensor(), stash);
    if (pass == 1) {
      once = values_of(x.parameter("weight").gradient);
    }
  }
  for (float& value : once) {
    value *= 2.0f;
  }
  expect_near(x.parameter("weight").gradient, x.rig.tensor({5}, once), 1e-6f);
}

// A frozen norm still passes the gradient on.
TEST_P(NormTest, AFrozenNormGivesTheSameGradientOfItsInput) {
  std::vector<std::vector<float>> results;
  for (const bool frozen : {false, true}) {
    StoreRig x(testing::kCpu, {.is_frozen = [frozen](std::string_view) { return frozen; }});
    const Norm norm(x.unit, spec_of(GetParam(), 5));
    x.allocate();
    const ParameterUnit::Lease lease(x.unit);
    const Tensor dx = x.rig.tensor({6, 5});
    Norm::Stash stash;
    norm.forward(x.rig.context, x.rig.activations, x.rig.tensor({6, 5}), x.rig.random({6, 5}, 1),
                 stash);
    norm.backward(x.rig.context, dx, x.rig.random({6, 5}, 2), ConstTensor(), stash);
    results.push_back(values_of(dx));
    EXPECT_EQ(x.parameter("weight").gradient.empty(), frozen);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(NormTest, RefusesPassesOutOfOrder) {
  StoreRig x;
  const Norm norm(x.unit, spec_of(GetParam(), 5));
  x.allocate();
  const ParameterUnit::Lease lease(x.unit);
  const Tensor input = x.rig.random({6, 5}, 1);
  const Tensor y = x.rig.tensor({6, 5});
  Norm::Stash stash;
  EXPECT_DEATH(norm.backward(x.rig.context, y, y, ConstTensor(), stash),
               "backward without forward");
  norm.forward(x.rig.context, x.rig.activations, y, input, stash);
  EXPECT_DEATH(norm.forward(x.rig.context, x.rig.activations, y, input, stash),
               "weight: the slot's micro-batch is still in flight");
}

}  // namespace
}  // namespace cadre::nn
