// Whole steps against loops written out in double: the norm over all parameters, an active clip,
// the count of targets, groups; then what must hold when a step is skipped or has no targets.

#include "optim/optimizer.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "testing/test_support.h"

namespace cadre::optim {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::kMeta;
using testing::Rig;
using testing::set_values;
using testing::values_of;

constexpr double kRate = 0.05;
constexpr float kCount = 7.0f;
constexpr float kMaxNorm = 0.4f;  // far below the norms here: the clip is active

// A hidden matrix, an embedding and a vector, with an optimizer over them.
struct Problem {
  explicit Problem(const TrainingSpec& training, const Device& device = kCpu,
                   DType compute = DType::kF32)
      : rig(device), store({.compute = compute}) {
    store.declare({{.name = "layers.0.proj.weight", .whole = {5, 3}}});
    store.declare(
        {{.name = "embed.weight", .whole = {4, 3}, .role = nn::ParameterRole::kEmbedding}});
    store.declare({{.name = "norm.weight",
                    .whole = {3},
                    .initial = nn::Initial::kOnes,
                    .role = nn::ParameterRole::kVector}});
    store.allocate(rig.context, {rig.parameters, rig.gradients, memory});
    store.initialize(rig.context, 1);
    optimizer = std::make_unique<Optimizer>(rig.context, memory, training.optimizer,
                                            optimized_parameters(store, training));
    count = rig.tensor({1}, {kCount});
  }

  void set_gradients(uint64_t step, float factor = 1.0f) {
    uint64_t stream = 10 * step;
    for (nn::Parameter& parameter : store.parameters()) {
      std::vector<float> values = values_of(rig.random(parameter.spec.whole, ++stream));
      for (float& value : values) {
        value *= factor;
      }
      set_values(parameter.gradient, values);
    }
  }

  void step(float max_norm = kMaxNorm, float loss_scale = 1.0f) {
    optimizer->step(rig.context, count,
                    {.learning_rate = kRate, .loss_scale = loss_scale, .max_grad_norm = max_norm});
  }

  std::vector<float> everything() {
    std::vector<float> all;
    for (const nn::Parameter& parameter : store.parameters()) {
      for (const float value : values_of(parameter.master)) {
        all.push_back(value);
      }
    }
    for (const StateTensor& state : optimizer->state()) {
      for (const float value : values_of(state.tensor)) {
        all.push_back(value);
      }
    }
    return all;
  }

  Rig rig;
  Arena memory{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
  nn::ParameterStore store;
  std::unique_ptr<Optimizer> optimizer;
  Tensor count;
};

TrainingSpec training_with(OptimizerKind kind) {
  TrainingSpec training;
  training.optimizer.kind = kind;
  training.optimizer.weight_decay = 0.3;
  training.optimizer.beta1 = 0.8;
  training.optimizer.beta2 = 0.9;
  training.optimizer.epsilon = 1e-3;
  return training;
}

// One parameter in double.
struct Reference {
  std::vector<double> value;
  std::vector<double> first;
  std::vector<double> second;
  double rate_scale = 1.0;
  double decay = 0.0;
};

std::vector<double> doubles(ConstTensor t) {
  const std::vector<float> values = values_of(t);
  return {values.begin(), values.end()};
}

// AdamW, SGD and Lion as their papers have them, on one element.
void move(Reference& p, size_t i, double g, const OptimizerSpec& spec, int64_t step) {
  const double rate = kRate * p.rate_scale;
  double& value = p.value[i];
  double& m = p.first[i];
  double& v = p.second[i];
  if (spec.kind == OptimizerKind::kAdamW) {
    const auto n = static_cast<double>(step);
    m = spec.beta1 * m + (1 - spec.beta1) * g;
    v = spec.beta2 * v + (1 - spec.beta2) * g * g;
    value -= rate * p.decay * value;
    value -= rate * (m / (1 - std::pow(spec.beta1, n))) /
             (std::sqrt(v / (1 - std::pow(spec.beta2, n))) + spec.epsilon);
  } else if (spec.kind == OptimizerKind::kLion) {
    const double u = spec.beta1 * m + (1 - spec.beta1) * g;
    m = spec.beta2 * m + (1 - spec.beta2) * g;
    value -= rate * ((u > 0 ? 1 : u < 0 ? -1 : 0) + p.decay * value);
  } else {
    value -= rate * p.decay * value;
    m = spec.momentum * m + g;
    value -= rate * (spec.nesterov ? g + spec.momentum * m : m);
  }
}

// Four steps of both, clipped, with a group that has a rate and a decay of its own.
void expect_matches_double(TrainingSpec training) {
  training.parameter_groups = {
      {.parameters = {"embed.*"}, .learning_rate_scale = 0.5, .weight_decay = 0.7}};
  Problem problem(training);
  std::vector<Reference> references;
  for (const nn::Parameter& parameter : problem.store.parameters()) {
    const std::vector<double> value = doubles(parameter.master);
    const std::vector<double> zeroes(value.size(), 0.0);
    references.push_back({.value = value, .first = zeroes, .second = zeroes});
  }
  references[0].decay = 0.3;  // the vector has none
  references[1].decay = 0.7;
  references[1].rate_scale = 0.5;
  for (int64_t step = 1; step <= 4; ++step) {
    problem.set_gradients(static_cast<uint64_t>(step));
    std::vector<std::vector<double>> gradients;
    double squares = 0.0;
    for (const nn::Parameter& parameter : problem.store.parameters()) {
      gradients.push_back(doubles(parameter.gradient));
      for (const double g : gradients.back()) {
        squares += g * g;
      }
    }
    problem.step();
    const double norm = std::sqrt(squares) / static_cast<double>(kCount);
    EXPECT_NEAR(values_of(problem.optimizer->norm_1())[0], norm, 1e-6 * norm);
    ASSERT_GT(norm, static_cast<double>(kMaxNorm));
    const double scale =
        static_cast<double>(kMaxNorm) / (norm + 1e-6) / static_cast<double>(kCount);
    for (size_t p = 0; p < references.size(); ++p) {
      for (size_t i = 0; i < gradients[p].size(); ++i) {
        move(references[p], i, scale * gradients[p][i], training.optimizer, step);
      }
    }
  }
  size_t p = 0;
  for (const nn::Parameter& parameter : problem.store.parameters()) {
    const std::vector<double>& expected = references[p++].value;
    expect_near(parameter.master,
                problem.rig.tensor(parameter.spec.whole, {expected.begin(), expected.end()}),
                1e-6f);
    EXPECT_EQ(values_of(parameter.gradient), std::vector<float>(expected.size(), 0.0f));
  }
}

TEST(Optimizer, AdamWMatchesDoubleWithAnActiveClip) {
  expect_matches_double(training_with(OptimizerKind::kAdamW));
}

// Adam forgets a factor in the gradient; SGD shows it, and so does an active clip.
TEST(FieldCases, B10_SgdAndAnActiveClipSeeEveryFactorOfTheGradient) {
  TrainingSpec training = training_with(OptimizerKind::kSgd);
  expect_matches_double(training);
  training.optimizer.momentum = 0.9;
  expect_matches_double(training);
  training.optimizer.nesterov = true;
  expect_matches_double(training);
}

TEST(Optimizer, LionMatchesDoubleWithAnActiveClip) {
  expect_matches_double(training_with(OptimizerKind::kLion));
}

// Rows as columns.
std::vector<float> transposed(const std::vector<float>& values, int64_t rows) {
  const auto R = static_cast<size_t>(rows);
  const size_t C = values.size() / R;
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    result[i % C * R + i / C] = values[i];
  }
  return result;
}

// GPT-2 stores its matrices with a row for every input; the layer is the same, so is its update.
TEST(Optimizer, MuonMovesAMatrixThatIsStoredTransposedAsItsTranspose) {
  for (const Shape& shape : {Shape{12, 3}, Shape{3, 12}, Shape{5, 5}}) {
    TrainingSpec training = training_with(OptimizerKind::kMuon);
    Rig rig(kCpu);
    Arena memory{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
    nn::ParameterStore store({});
    nn::ParameterSpec plain{.name = "plain", .whole = shape};
    nn::ParameterSpec stored{.name = "stored", .whole = {shape[1], shape[0]}, .transposed = true};
    store.declare({plain});
    store.declare({stored});
    store.allocate(rig.context, {rig.parameters, rig.gradients, memory});
    nn::Parameter& one = store.parameters()[0];
    nn::Parameter& other = store.parameters()[1];
    set_values(one.master, values_of(rig.random(shape, 1)));
    set_values(other.master, transposed(values_of(one.master), shape[0]));
    Optimizer optimizer(rig.context, memory, training.optimizer,
                        optimized_parameters(store, training));
    const Tensor count = rig.tensor({1}, {kCount});
    const std::vector<float> before = values_of(one.master);
    for (uint64_t step = 1; step <= 3; ++step) {
      set_values(one.gradient, values_of(rig.random(shape, 10 + step)));
      set_values(other.gradient, transposed(values_of(one.gradient), shape[0]));
      optimizer.step(rig.context, count, {.learning_rate = kRate, .max_grad_norm = kMaxNorm});
    }
    EXPECT_NE(values_of(one.master), before);
    const Tensor back = rig.tensor(shape, transposed(values_of(other.master), shape[1]));
    expect_near(back, one.master, 1e-6f);
  }
}

// GPT-2 has q, k and v in one tensor; with equal gradients they move as three tensors would.
TEST(Optimizer, MuonMovesFusedMatricesOneByOne) {
  for (const bool is_transposed : {false, true}) {
    TrainingSpec training = training_with(OptimizerKind::kMuon);
    Rig rig(kCpu);
    Arena memory{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
    nn::ParameterStore store({});
    const Shape all = is_transposed ? Shape{4, 15} : Shape{15, 4};
    store.declare({{.name = "fused", .whole = all, .transposed = is_transposed, .fused = 3}});
    for (const char* name : {"q", "k", "v"}) {
      store.declare({{.name = name, .whole = {5, 4}}});
    }
    store.allocate(rig.context, {rig.parameters, rig.gradients, memory});
    std::vector<float> values, gradients;
    for (uint64_t i = 1; i <= 3; ++i) {
      nn::Parameter& one = store.parameters()[i];
      set_values(one.master, values_of(rig.random({5, 4}, i)));
      std::vector<float> gradient = values_of(rig.random({5, 4}, 10 + i));
      for (float& value : gradient) {
        value *= static_cast<float>(i);  // so that one norm over all would show
      }
      set_values(one.gradient, gradient);
      for (const float value : values_of(one.master)) {
        values.push_back(value);
      }
      gradients.insert(gradients.end(), gradient.begin(), gradient.end());
    }
    nn::Parameter& fused = store.parameters()[0];
    set_values(fused.master, is_transposed ? transposed(values, 15) : values);
    set_values(fused.gradient, is_transposed ? transposed(gradients, 15) : gradients);
    Optimizer optimizer(rig.context, memory, training.optimizer,
                        optimized_parameters(store, training));
    optimizer.step(rig.context, rig.tensor({1}, {kCount}),
                   {.learning_rate = kRate, .max_grad_norm = kMaxNorm});
    std::vector<float> apart;
    for (size_t i = 1; i <= 3; ++i) {
      for (const float value : values_of(store.parameters()[i].master)) {
        apart.push_back(value);
      }
    }
    const std::vector<float> moved = values_of(fused.master);
    expect_near(rig.tensor({15, 4}, is_transposed ? transposed(moved, 4) : moved),
                rig.tensor({15, 4}, apart), 1e-6f);
  }
}

TEST(Optimizer, DoesNotClipWhatIsShortEnough) {
  Problem clipped(training_with(OptimizerKind::kSgd));
  Problem free(training_with(OptimizerKind::kSgd));
  clipped.set_gradients(1);
  free.set_gradients(1);
  clipped.step(1000.0f);
  free.step(0.0f);
  EXPECT_EQ(clipped.everything(), free.everything());
}

// The scale is a power of two, so it leaves the same bits.
TEST(Optimizer, TakesTheLossScaleOutOfGradientsAndNorm) {
  Problem plain(training_with(OptimizerKind::kSgd));
  Problem scaled(training_with(OptimizerKind::kSgd));
  plain.set_gradients(1);
  scaled.set_gradients(1, 1024.0f);
  plain.step();
  scaled.step(kMaxNorm, 1024.0f);
  EXPECT_EQ(scaled.everything(), plain.everything());
  EXPECT_EQ(values_of(scaled.optimizer->norm_1()), values_of(plain.optimizer->norm_1()));
}

TEST(FieldCases, J9_ASkippedStepLeavesTheBiasCorrectionRight) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    Problem skipping(training_with(kind));
    Problem straight(training_with(kind));
    for (uint64_t step = 1; step <= 3; ++step) {
      skipping.set_gradients(step);
      straight.set_gradients(step);
      skipping.step();
      straight.step();
      const std::vector<float> before = skipping.everything();
      skipping.set_gradients(99);
      testing::store(skipping.store.parameters()[1].gradient, 5,
                     std::numeric_limits<float>::infinity());
      skipping.step();
      EXPECT_TRUE(std::isnan(values_of(skipping.optimizer->norm_1())[0]));
      EXPECT_EQ(skipping.everything(), before);
      skipping.optimizer->set_updates(skipping.optimizer->updates() - 1);
    }
    EXPECT_EQ(skipping.optimizer->updates(), 3);
    EXPECT_EQ(skipping.everything(), straight.everything());
  }
}

TEST(Optimizer, NamesTheFirstTensorThatIsNotFinite) {
  Problem problem(training_with(OptimizerKind::kAdamW));
  problem.set_gradients(1);
  testing::store(problem.store.parameters()[1].gradient, 5, std::nanf(""));
  problem.step();
  const std::vector<float> squared = values_of(problem.optimizer->squared_P());
  EXPECT_TRUE(std::isfinite(squared[0]));
  EXPECT_FALSE(std::isfinite(squared[1]));
  EXPECT_TRUE(std::isfinite(squared[2]));
  EXPECT_EQ(problem.optimizer->parameters()[1].parameter->spec.name, "embed.weight");
}

TEST(FieldCases, B5_AStepWithoutTargetsIsHarmless) {
  Problem problem(training_with(OptimizerKind::kAdamW));
  set_values(problem.count, {0.0f});
  problem.step();  // the gradients are zero, as a batch without targets leaves them
  EXPECT_EQ(values_of(problem.optimizer->norm_1())[0], 0.0f);
  for (const float value : problem.everything()) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Optimizer, RefreshesTheCopyThatLayersComputeWith) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kMuon}) {
    Problem problem(training_with(kind), kCpu, DType::kBf16);
    problem.set_gradients(1);
    problem.step();
    int copies = 0;
    for (const nn::Parameter& parameter : problem.store.parameters()) {
      if (!parameter.copy.empty()) {
        std::vector<float> expected = values_of(parameter.master);
        for (float& value : expected) {
          value = to_float(from_float<Bf16>(value));
        }
        EXPECT_EQ(values_of(parameter.copy), expected) << parameter.spec.name;
        ++copies;
      }
    }
    EXPECT_EQ(copies, 2);
  }
}

TEST(Optimizer, NamesItsStateAsCheckpointsHaveIt) {
  const auto names = [](const TrainingSpec& training) {
    Problem problem(training);
    std::vector<std::string> list;
    for (const StateTensor& state : problem.optimizer->state()) {
      EXPECT_EQ(state.tensor.shape, state.parameter->master.shape);
      list.push_back(state.name);
    }
    return list;
  };
  EXPECT_EQ(names(training_with(OptimizerKind::kMuon)),
            (std::vector<std::string>{"momentum/layers.0.proj.weight", "exp_avg/embed.weight",
                                      "exp_avg_sq/embed.weight", "exp_avg/norm.weight",
                                      "exp_avg_sq/norm.weight"}));
  EXPECT_TRUE(names(training_with(OptimizerKind::kSgd)).empty());
}

TEST(Optimizer, TakesTheFirstGroupThatMatches) {
  TrainingSpec training = training_with(OptimizerKind::kAdamW);
  training.parameter_groups = {
      {.parameters = {"nothing", "norm.*"}, .learning_rate_scale = 2.0, .weight_decay = 0.5},
      {.parameters = {"*"}, .learning_rate_scale = 3.0}};
  Problem problem(training);
  const std::vector<OptimizedParameter> list = optimized_parameters(problem.store, training);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].learning_rate_scale, 3.0f);
  EXPECT_EQ(list[0].weight_decay, 0.3f);
  EXPECT_EQ(list[2].learning_rate_scale, 2.0f);
  EXPECT_EQ(list[2].weight_decay, 0.5f);  // a group may say so of a vector
}

TEST(Optimizer, BooksTheSameOnMeta) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kMuon}) {
    std::vector<Segment> segments;
    for (const Device& device : {kCpu, kMeta}) {
      Problem problem(training_with(kind), device);
      problem.rig.trace.cut();
      problem.step();
      segments.push_back(problem.rig.trace.cut());
    }
    EXPECT_EQ(segments[0], segments[1]);
  }
}

}  // namespace
}  // namespace cadre::optim
