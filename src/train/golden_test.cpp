// The whole model against results that were computed elsewhere, in double precision: every family
// and option, forward, backward and a few optimizer steps.

#include "testing/golden.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/family.h"
#include "testing/test_support.h"
#include "train/engine.h"
#include "train/rehearsal.h"

namespace cadre::train {
namespace {

using testing::Golden;
using testing::load_golden;

struct Setting {
  Precision precision = Precision::kFp32;
  Recompute recompute = Recompute::kNone;
  int threads = 2;
};

EngineSpec spec_of(const Golden& golden, const Setting& setting) {
  const Result<ModelSpec> model = model::read_model_config(golden.config, golden.name);
  CADRE_CHECK(model.ok(), model.ok() ? "" : model.error().message);
  EngineSpec spec{.model = *model,
                  .sequence_length = golden.sequence_length,
                  .separate_documents = golden.has_documents};
  spec.training.precision = setting.precision;
  spec.training.recompute = setting.recompute;
  spec.training.micro_batch_size = golden.sequences;
  spec.training.z_loss = golden.expected["z_loss_coefficient"].get<double>();
  return spec;
}

std::unique_ptr<Engine> make_engine(const EngineSpec& spec, int threads) {
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal =
      rehearse(spec, {.target = target, .threads = threads, .whole_logits = true});
  return std::make_unique<Engine>(spec, Device{.kind = DeviceKind::kCpu, .target = target}, threads,
                                  rehearsal.ledger);
}

void store_weights(Engine& engine, const Golden& golden) {
  size_t stored = 0;
  for (nn::Parameter& parameter : engine.store().parameters()) {
    const auto tensor =
        std::ranges::find(golden.weights, parameter.spec.name, &testing::GoldenTensor::name);
    CADRE_CHECK(tensor != golden.weights.end(), parameter.spec.name);
    std::ranges::copy(tensor->values, parameter.master.flat<float>().begin());
    ++stored;
  }
  CADRE_CHECK_EQ(stored, golden.weights.size());
  engine.store().refresh_copies(engine.context());
}

FillBatch batch_of(const Golden& golden) {
  return [&golden](int64_t, const HostBatch& batch) {
    std::ranges::copy(golden.tokens, batch.tokens.begin());
    std::ranges::copy(golden.targets, batch.targets.begin());
    std::ranges::copy(golden.positions, batch.positions.begin());
    std::ranges::copy(golden.starts, batch.starts.begin());
  };
}

double rms(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double largest(const std::vector<double>& values) {
  double most = 0.0;
  for (const double value : values) {
    most = std::max(most, std::abs(value));
  }
  return most;
}

class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  Golden golden = load_golden(GetParam());

  // The gradient of the mean, as the file has it.
  std::map<std::string, std::vector<double>> gradients(Engine& engine) const {
    std::map<std::string, std::vector<double>> all;
    const auto count = golden.expected["target_tokens"].get<double>();
    for (const nn::Parameter& parameter : engine.store().parameters()) {
      for (const float value : parameter.gradient.flat<float>()) {
        all[parameter.spec.name].push_back(value / count);
      }
    }
    return all;
  }

  // The last step's update is in no loss of the list: the loss after it and where weights are then.
  void expect_end(Engine& engine, const Json& training, double tolerance) const {
    EvaluationSums sums;
    const FillBatch fill = batch_of(golden);
    engine.evaluate(sums, [&](const HostBatch& batch) { fill(0, batch); });
    const auto loss = training["loss_after"].get<double>();
    EXPECT_NEAR(sums.loss / static_cast<double>(sums.target_tokens), loss,
                tolerance * std::max(1.0, loss));
    EXPECT_EQ(training["final_first4"].size(), engine.store().parameters().size());
    for (const nn::Parameter& parameter : engine.store().parameters()) {
      const std::span<const float> values = parameter.master.flat<float>();
      const double scale = rms({values.begin(), values.end()});
      const auto first = training["final_first4"][parameter.spec.name].get<std::vector<double>>();
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_NEAR(values[i], first[i], 10 * tolerance * scale) << parameter.spec.name << " " << i;
      }
    }
  }

  void expect_logits(Engine& engine, double tolerance, bool of_largest) const {
    model::Batch batch = engine.filled_batch();
    batch.training = false;
    const OwnedTensor logits = engine.stage().logits(engine.context(), engine.activations(), batch);
    const auto positions = golden.expected["logits_positions"].get<std::vector<int64_t>>();
    for (size_t i = 0; i < positions.size(); ++i) {
      const auto expected = golden.expected["logits"][i].get<std::vector<double>>();
      const std::span<float> row = logits.view().row<float>(positions[i]);
      ASSERT_EQ(row.size(), expected.size());
      const double scale = of_largest ? largest(expected) : rms(expected);
      for (size_t v = 0; v < expected.size(); ++v) {
        ASSERT_NEAR(row[v], expected[v], tolerance * scale)
            << "position " << positions[i] << " token " << v;
      }
    }
  }
};

TEST_P(GoldenTest, GivesTheLossLogitsAndGradientsInFp32) {
  const std::unique_ptr<Engine> engine = make_engine(spec_of(golden, {}), 2);
  store_weights(*engine, golden);
  const StepResult result = engine->accumulate({}, batch_of(golden), 1);
  EXPECT_EQ(result.target_tokens, golden.expected["target_tokens"].get<int64_t>());
  const auto loss = golden.expected["loss"].get<double>();
  EXPECT_NEAR(result.loss, loss, 1e-5 * std::max(1.0, loss));
  EXPECT_NEAR(result.z_loss, golden.expected["z_loss"].get<double>(), 1e-5);
  const auto all = gradients(*engine);
  EXPECT_EQ(all.size(), golden.expected["grad_norm"].size());
  for (const auto& [name, values] : all) {
    const auto scale = golden.expected["grad_rms"][name].get<double>();
    const auto first = golden.expected["grad_first8"][name].get<std::vector<double>>();
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(values[i], first[i], 1e-4 * scale) << name << " " << i;
    }
    const double norm = rms(values) * std::sqrt(static_cast<double>(values.size()));
    const auto expected = golden.expected["grad_norm"][name].get<double>();
    EXPECT_NEAR(norm, expected, 1e-5 * expected) << name;
  }
  expect_logits(*engine, 1e-4, false);
}

// How often the bounds of bf16 that hold for S may be taken. A bias of keys moves all scores of a
// query nearly alike, and softmax takes that out: its gradient is a small difference of large sums.
double gradient_slack(const std::string& name, double slack) {
  return name.ends_with("k_proj.bias") ? 4.0 : slack;
}

TEST_P(GoldenTest, IsNearInBf16) {
  // The weights of the other goldens are not bf16's, and so large that rounding them alone moves
  // the logits by more than the bounds that hold for these.
  const bool mild = golden.name == "S" || golden.name == "gqa" || golden.name == "gqa_tied";
  // (Of those, rounding alone, done ideally, moves a row of gqa by 1.1e-2 of its maximum in the
  // median and by 2.2e-2 in one of a hundred; weights make more than half of it. These are not such
  // rows.)
  const double slack = mild ? 1.0 : 2.0;
  const std::unique_ptr<Engine> engine =
      make_engine(spec_of(golden, {.precision = Precision::kBf16}), 2);
  store_weights(*engine, golden);
  const StepResult result = engine->accumulate({}, batch_of(golden), 1);
  const auto loss = golden.expected["loss"].get<double>();
  EXPECT_NEAR(result.loss, loss, slack * 1e-3 * std::max(1.0, loss));
  for (const auto& [name, values] : gradients(*engine)) {
    const auto scale = golden.expected["grad_rms"][name].get<double>();
    const auto first = golden.expected["grad_first8"][name].get<std::vector<double>>();
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(values[i], first[i], gradient_slack(name, slack) * 0.15 * scale)
          << name << " " << i;
    }
    const double norm = rms(values) * std::sqrt(static_cast<double>(values.size()));
    const auto expected = golden.expected["grad_norm"][name].get<double>();
    EXPECT_NEAR(norm, expected, gradient_slack(name, slack) * 2e-2 * expected) << name;
  }
  expect_logits(*engine, slack * 2e-2, true);
}

// With the rounding of the weights on both sides every golden is held to the bounds of S. The fp32
// side is held to the golden's own numbers above.
TEST_P(GoldenTest, IsNearInBf16ToTheSameWeightsInFp32) {
  Golden rounded = golden;
  for (testing::GoldenTensor& tensor : rounded.weights) {
    for (float& value : tensor.values) {
      value = to_float(from_float<Bf16>(value));
    }
  }
  const auto engine = make_engine(spec_of(golden, {.precision = Precision::kBf16}), 2);
  const auto exact = make_engine(spec_of(golden, {}), 2);
  store_weights(*engine, golden);
  store_weights(*exact, rounded);
  const StepResult result = engine->accumulate({}, batch_of(golden), 1);
  const StepResult expected = exact->accumulate({}, batch_of(golden), 1);
  EXPECT_NEAR(result.loss, expected.loss, 1e-3 * std::max(1.0, expected.loss));
  const auto all = gradients(*exact);
  for (const auto& [name, values] : gradients(*engine)) {
    const std::vector<double>& truth = all.at(name);
    const double scale = rms(truth);
    EXPECT_NEAR(rms(values), scale, gradient_slack(name, 1.0) * 2e-2 * scale) << name;
    for (size_t i = 0; i < std::min<size_t>(8, truth.size()); ++i) {
      EXPECT_NEAR(values[i], truth[i], gradient_slack(name, 1.0) * 0.15 * scale)
          << name << " " << i;
    }
  }
  const auto logits_of = [](Engine& of) {
    model::Batch batch = of.filled_batch();
    batch.training = false;
    return of.stage().logits(of.context(), of.activations(), batch);
  };
  const OwnedTensor logits = logits_of(*engine), truth = logits_of(*exact);
  // The last layers of the small goldens are so steep that the order of a sum moves a logit by a
  // tenth of the bound; which order it is depends on the CPU.
  const double bound = golden.name == "S" || golden.name.starts_with("gqa") ? 2e-2 : 2.5e-2;
  for (const auto position : golden.expected["logits_positions"].get<std::vector<int64_t>>()) {
    const std::span<const float> row = logits.view().row<float>(position);
    const std::span<const float> want = truth.view().row<float>(position);
    const double scale = largest({want.begin(), want.end()});
    for (size_t v = 0; v < want.size(); ++v) {
      ASSERT_NEAR(row[v], want[v], bound * scale) << "position " << position << " token " << v;
    }
  }
}

OptimizerSpec optimizer_of(const Json& json) {
  OptimizerSpec spec{.weight_decay = json["weight_decay"]};
  if (json["kind"] == "sgd") {
    spec.kind = OptimizerKind::kSgd;
    spec.momentum = json["momentum"];
    spec.nesterov = json.value("nesterov", false);
  } else {
    spec.beta1 = json["beta1"];
    spec.beta2 = json["beta2"];
    spec.epsilon = json["epsilon"];
  }
  return spec;
}

// SGD and an active clip: a gradient that is wrong by a factor cannot hide as it would behind Adam.
TEST_P(GoldenTest, FollowsTheSameStepsOfTheOptimizers) {
  for (const Json& training : golden.expected["training"]) {
    EngineSpec spec = spec_of(golden, {});
    spec.training.optimizer = optimizer_of(training["optimizer"]);
    spec.training.max_grad_norm = training["max_grad_norm"];
    const std::unique_ptr<Engine> engine = make_engine(spec, 2);
    store_weights(*engine, golden);
    // The first steps of AdamW divide a gradient by its own size, which magnifies its rounding.
    const double tolerance = spec.training.optimizer.kind == OptimizerKind::kAdamW ? 3e-5 : 1e-5;
    const auto rates = training["learning_rates"].get<std::vector<double>>();
    for (size_t step = 0; step < rates.size(); ++step) {
      const StepResult result = engine->step(
          {.step = static_cast<int64_t>(step), .learning_rate = rates[step]}, batch_of(golden));
      const auto loss = training["losses"][step].get<double>();
      const auto norm = training["grad_norms"][step].get<double>();
      EXPECT_NEAR(result.loss, loss, tolerance * std::max(1.0, loss)) << "step " << step;
      EXPECT_NEAR(result.grad_norm, norm, 1e-4 * norm) << "step " << step;
    }
    expect_end(*engine, training, tolerance);
  }
}

// Recomputation runs the same kernels on the same inputs; threads only share the tiles.
TEST_P(GoldenTest, GivesTheSameBitsWithRecomputationAndAnyNumberOfThreads) {
  const auto step = [&](const Setting& setting) {
    const std::unique_ptr<Engine> engine = make_engine(spec_of(golden, setting), setting.threads);
    store_weights(*engine, golden);
    engine->accumulate({}, batch_of(golden), 1);
    return gradients(*engine);
  };
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto plain = step({.precision = precision, .threads = 1});
    EXPECT_EQ(step({.precision = precision, .recompute = Recompute::kSelective}), plain);
    EXPECT_EQ(step({.precision = precision, .recompute = Recompute::kFull, .threads = 3}), plain);
  }
}

// What the rehearsal says, the run takes: to the byte.
TEST_P(GoldenTest, TakesTheMemoryThatWasPlanned) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const EngineSpec spec =
        spec_of(golden, {.precision = Precision::kBf16, .recompute = recompute});
    const Rehearsal rehearsal = rehearse(spec, {.target = detect_cpu_target(), .threads = 2});
    Engine engine(spec, {.kind = DeviceKind::kCpu, .target = detect_cpu_target()}, 2,
                  rehearsal.ledger);
    store_weights(engine, golden);
    engine.step({.learning_rate = 1e-3}, batch_of(golden));
    EvaluationSums sums;
    engine.evaluate(sums, [&](const HostBatch& batch) { batch_of(golden)(0, batch); });
    EXPECT_EQ(engine.peaks(), rehearsal.ledger);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(testing::golden_names()),
                         [](const auto& golden) { return golden.param; });

}  // namespace
}  // namespace cadre::train
