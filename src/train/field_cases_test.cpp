// Faults that users of training engines met, shown on one process; named after docs/field-cases.md.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/cross_entropy.h"
#include "train/engine.h"
#include "train/rehearsal.h"

namespace cadre::train {
namespace {

ModelSpec small_model() {
  return {.family = "llama",
          .vocab_size = 37,
          .hidden_size = 24,
          .intermediate_size = 40,
          .num_hidden_layers = 2,
          .num_attention_heads = 3,
          .num_key_value_heads = 1,
          .head_dim = 8,
          .max_position_embeddings = 64};
}

EngineSpec small_spec(int64_t batch, int64_t length) {
  EngineSpec spec{.model = small_model(), .sequence_length = length};
  spec.training.micro_batch_size = batch;
  spec.training.optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.0};
  return spec;
}

std::unique_ptr<Engine> make_engine(const EngineSpec& spec) {
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal =
      rehearse(spec, {.target = target, .threads = 2, .whole_logits = true});
  auto engine = std::make_unique<Engine>(spec, Device{.kind = DeviceKind::kCpu, .target = target},
                                         2, rehearsal.ledger);
  engine->store().initialize(engine->context(), 5);
  return engine;
}

// Sequence `row` of an endless set: its tokens, and 1 to S targets that count, another number for
// every row.
void fill_row(const HostBatch& batch, int64_t place, int64_t row, int64_t length) {
  const RandomKey key{.seed = 3, .stream = static_cast<uint64_t>(row)};
  for (int64_t t = 0; t < length; ++t) {
    const auto at = static_cast<size_t>(place * length + t);
    batch.tokens[at] = static_cast<int32_t>(random_word_at(key, t) % 37);
    batch.targets[at] = t > row * 5 % length
                            ? kernels::kIgnoredTarget
                            : static_cast<int32_t>(random_word_at(key, t + 1) % 37);
    batch.positions[at] = static_cast<int32_t>(t);
    batch.starts[at] = 0;
  }
}

FillBatch rows_of(int64_t batch, int64_t length) {
  return [=](int64_t micro_batch, const HostBatch& host) {
    for (int64_t b = 0; b < batch; ++b) {
      fill_row(host, b, micro_batch * batch + b, length);
    }
  };
}

std::map<std::string, std::vector<float>> values_of(Engine& engine) {
  std::map<std::string, std::vector<float>> all;
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    const auto flat = parameter.master.flat<float>();
    all[parameter.spec.name].assign(flat.begin(), flat.end());
  }
  return all;
}

void expect_near(const std::map<std::string, std::vector<float>>& a,
                 const std::map<std::string, std::vector<float>>& b, float tolerance) {
  for (const auto& [name, values] : a) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], b.at(name)[i], tolerance) << name << " " << i;
    }
  }
}

// SGD with an active clip: a factor in the gradient moves the parameters.
TEST(FieldCases, B1_B2_B6_B10_AccumulationWeighsEveryTargetOnce) {
  constexpr int64_t kLength = 12;
  std::map<std::string, std::vector<float>> whole;
  for (const int64_t micro_batches : {1, 2, 6}) {
    EngineSpec spec = small_spec(6 / micro_batches, kLength);
    spec.training.gradient_accumulation_steps = micro_batches;
    spec.training.max_grad_norm = 0.2;
    const std::unique_ptr<Engine> engine = make_engine(spec);
    StepResult result;
    for (int64_t step = 0; step < 3; ++step) {
      result =
          engine->step({.step = step, .learning_rate = 0.5}, rows_of(6 / micro_batches, kLength));
    }
    EXPECT_GT(result.grad_norm, 0.2);
    if (micro_batches == 1) {
      whole = values_of(*engine);
    } else {
      expect_near(values_of(*engine), whole, 2e-6f);
    }
  }
}

TEST(FieldCases, B5_B29_AMicroBatchOrAStepWithoutTargetsIsHarmless) {
  const std::unique_ptr<Engine> engine = make_engine(small_spec(2, 8));
  const auto before = values_of(*engine);
  const StepResult result =
      engine->step({.learning_rate = 0.5}, [](int64_t, const HostBatch& host) {
        rows_of(2, 8)(0, host);
        std::ranges::fill(host.targets, kernels::kIgnoredTarget);
      });
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.target_tokens, 0);
  EXPECT_EQ(result.loss, 0.0);
  EXPECT_EQ(values_of(*engine), before);
}

// Of three micro-batches the middle one has no targets: the step is that of the other two.
TEST(FieldCases, B5_AMicroBatchWithoutTargetsInAnAccumulationIsHarmless) {
  const auto step = [](int64_t micro_batches, const FillBatch& fill) {
    EngineSpec spec = small_spec(2, 8);
    spec.training.gradient_accumulation_steps = micro_batches;
    spec.training.max_grad_norm = 0.2;
    std::unique_ptr<Engine> engine = make_engine(spec);
    const StepResult result = engine->step({.learning_rate = 0.5}, fill);
    EXPECT_GT(result.grad_norm, 0.2);
    return std::make_pair(result, values_of(*engine));
  };
  const auto [expected, moved] = step(2, rows_of(2, 8));
  const auto [result, values] = step(3, [](int64_t micro_batch, const HostBatch& host) {
    rows_of(2, 8)(micro_batch / 2, host);
    if (micro_batch == 1) {
      std::ranges::fill(host.targets, kernels::kIgnoredTarget);
    }
  });
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.target_tokens, expected.target_tokens);
  EXPECT_EQ(result.loss, expected.loss);
  EXPECT_EQ(result.grad_norm, expected.grad_norm);
  EXPECT_EQ(values, moved);
}

TEST(FieldCases, B26_TheReportedLossDoesNotContainTheZLoss) {
  EngineSpec spec = small_spec(2, 8);
  const StepResult plain = make_engine(spec)->accumulate({}, rows_of(2, 8), 1);
  spec.training.z_loss = 0.1;
  const StepResult with_z = make_engine(spec)->accumulate({}, rows_of(2, 8), 1);
  EXPECT_EQ(with_z.loss, plain.loss);
  EXPECT_GT(with_z.z_loss, 0.1);
}

// Two documents in one row: nothing of the first reaches the second.
TEST(FieldCases, E11_E13_ADocumentDoesNotSeeTheOneBeforeIt) {
  EngineSpec spec = small_spec(1, 14);
  spec.separate_documents = true;
  const std::unique_ptr<Engine> engine = make_engine(spec);
  const auto logits_with = [&](int32_t first_token) {
    engine->accumulate(
        {},
        [&](int64_t, const HostBatch& host) {
          fill_row(host, 0, 4, 14);
          host.tokens[0] = first_token;
          for (size_t t = 5; t < 14; ++t) {
            host.starts[t] = 5;
            host.positions[t] = static_cast<int32_t>(t) - 5;
          }
        },
        1);
    model::Batch batch = engine->filled_batch();
    batch.training = false;
    const OwnedTensor logits =
        engine->stage().logits(engine->context(), engine->activations(), batch);
    std::vector<float> first(logits.view().row<float>(4).begin(),
                             logits.view().row<float>(4).end());
    std::vector<float> second;
    for (int64_t t = 5; t < 14; ++t) {
      const std::span<float> row = logits.view().row<float>(t);
      second.insert(second.end(), row.begin(), row.end());
    }
    return std::pair(first, second);
  };
  const auto one = logits_with(1);
  const auto other = logits_with(2);
  EXPECT_NE(one.first, other.first);
  EXPECT_EQ(one.second, other.second);
}

// Causal attention counts half of the square. (6 N for products, 6 L T width for attention.)
TEST(FieldCases, H6_H7_FlopsOfAttentionAreCausal) {
  EngineSpec spec{.model = {.family = "llama",
                            .vocab_size = 32000,
                            .hidden_size = 4096,
                            .intermediate_size = 11008,
                            .num_hidden_layers = 32,
                            .num_attention_heads = 32,
                            .num_key_value_heads = 32,
                            .head_dim = 128,
                            .max_position_embeddings = 8192},
                  .sequence_length = 8192};
  spec.training.micro_batch_size = 1;
  const Rehearsal rehearsal = rehearse(spec, {.target = Target::kCpuAvx512});
  const double products = 32.0 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008) + 32000.0 * 4096;
  const double expected = 6.0 * products + 6.0 * 32 * 4096 * 8192;
  EXPECT_NEAR(rehearsal.flops_per_token, expected, 2e-4 * expected);
  EXPECT_EQ(rehearsal.parameters, 6738415616);  // Llama 2 7B
}

// The plan of a model that no such machine could hold takes no memory.
TEST(FieldCases, H1_H5_ThePlanCountsEverythingBeforeAnythingStarts) {
  EngineSpec spec{.model = {.family = "llama",
                            .vocab_size = 128256,
                            .hidden_size = 8192,
                            .intermediate_size = 28672,
                            .num_hidden_layers = 80,
                            .num_attention_heads = 64,
                            .num_key_value_heads = 8,
                            .head_dim = 128,
                            .max_position_embeddings = 8192},
                  .sequence_length = 8192};
  spec.training.micro_batch_size = 1;
  spec.training.precision = Precision::kBf16;
  const Rehearsal rehearsal = rehearse(spec, {.target = Target::kCpuAvx512Bf16});
  EXPECT_EQ(rehearsal.parameters, 70553706496);  // Llama 3.1 70B
  // Matrices in bf16, vectors in fp32; a gradient in fp32 for each; masters and two moments.
  const int64_t vectors = (80 * 2 + 1) * 8192;
  EXPECT_EQ(rehearsal.ledger.of(MemoryCategory::kParameters),
            2 * (rehearsal.parameters - vectors) + 4 * vectors);
  EXPECT_EQ(rehearsal.ledger.of(MemoryCategory::kGradients), 4 * rehearsal.parameters);
  EXPECT_GT(rehearsal.ledger.of(MemoryCategory::kActivations), int64_t{80} * 8192 * 8192 * 2);
}

// Every way to ask for dropout: a part of the model alone, or the key that stands for all.
std::vector<std::pair<std::string, EngineSpec>> dropouts(int64_t batch, int64_t length) {
  std::vector<std::pair<std::string, EngineSpec>> all;
  const auto add = [&](const char* name) -> EngineSpec& {
    return all.emplace_back(name, small_spec(batch, length)).second;
  };
  add("embedding").model.embedding_dropout = 0.3;
  add("residual").model.residual_dropout = 0.3;
  add("attention").model.attention_dropout = 0.3;
  add("all").training.dropout = 0.3;
  EngineSpec& bf16 = add("attention in bf16");
  bf16.model.attention_dropout = 0.3;
  bf16.training.precision = Precision::kBf16;
  return all;
}

// The same drop-outs whether activations are kept or made again.
TEST(FieldCases, J6_J7_DropoutIsTheSameWithRecomputation) {
  for (auto& [name, spec] : dropouts(2, 19)) {
    SCOPED_TRACE(name);
    std::map<std::string, std::vector<float>> kept;
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      spec.training.recompute = recompute;
      const std::unique_ptr<Engine> engine = make_engine(spec);
      engine->step({.step = 7, .learning_rate = 0.5}, rows_of(2, 19));
      if (recompute == Recompute::kNone) {
        kept = values_of(*engine);
      } else {
        EXPECT_EQ(values_of(*engine), kept);
      }
    }
  }
}

TEST(FieldCases, J6_J7_DropoutIsTheSameForAnyMicroBatches) {
  for (auto& [name, spec] : dropouts(6, 19)) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Engine> whole = make_engine(spec);
    whole->step({.step = 7, .learning_rate = 0.5}, rows_of(6, 19));
    spec.training.micro_batch_size = 2;
    spec.training.gradient_accumulation_steps = 3;
    const std::unique_ptr<Engine> parts = make_engine(spec);
    parts->step({.step = 7, .learning_rate = 0.5}, rows_of(2, 19));
    expect_near(values_of(*parts), values_of(*whole), 1e-6f);
  }
}

// Each of a configuration's dropouts changes what training sees, from step to step anew, and
// nothing that an evaluation sees; and it costs what the plan says.
TEST(FieldCases, J6_J7_EveryDropoutIsOfTrainingAlone) {
  const EngineSpec plain = small_spec(2, 19);
  const std::unique_ptr<Engine> without = make_engine(plain);
  const auto row = [](const HostBatch& host) { rows_of(2, 19)(0, host); };
  const auto evaluated = [&](Engine& engine) {
    EvaluationSums sums;
    engine.evaluate(sums, row);
    return sums.loss;
  };
  const double loss = without->accumulate({}, rows_of(2, 19), 1).loss;
  for (const auto& [name, spec] : dropouts(2, 19)) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Engine> engine = make_engine(spec);
    const double first = engine->accumulate({.step = 0}, rows_of(2, 19), 1).loss;
    const double second = engine->accumulate({.step = 1}, rows_of(2, 19), 1).loss;
    EXPECT_EQ(engine->accumulate({.step = 0}, rows_of(2, 19), 1).loss, first);
    EXPECT_NE(first, loss);
    EXPECT_NE(first, second);
    if (spec.training.precision == Precision::kFp32) {
      EXPECT_EQ(evaluated(*engine), evaluated(*without));
    }
    engine->step({}, rows_of(2, 19));
    const Rehearsal planned = rehearse(spec, {.target = detect_cpu_target(), .threads = 2});
    for (const MemoryCategory category :
         {MemoryCategory::kActivations, MemoryCategory::kWorkspace}) {
      EXPECT_EQ(engine->peaks().of(category), planned.ledger.of(category));
    }
  }
}

TEST(FieldCases, J10_DepthScaledInitialisationIsApplied) {
  EngineSpec spec = small_spec(1, 8);
  spec.model.num_hidden_layers = 8;
  spec.model.depth_scaled_init = true;
  const std::unique_ptr<Engine> engine = make_engine(spec);
  const auto all = values_of(*engine);
  const auto deviation = [&](const std::string& name) {
    double squares = 0.0;
    for (const float value : all.at(name)) {
      squares += static_cast<double>(value) * value;
    }
    return std::sqrt(squares / static_cast<double>(all.at(name).size()));
  };
  EXPECT_NEAR(deviation("model.layers.3.mlp.up_proj.weight"), 0.02, 0.002);
  EXPECT_NEAR(deviation("model.layers.3.mlp.down_proj.weight"), 0.02 / 4.0, 0.0006);
  EXPECT_NEAR(deviation("model.layers.5.self_attn.o_proj.weight"), 0.02 / 4.0, 0.0006);
}

// Gradients of bf16 runs are summed in fp32: many small micro-batches equal one large one.
TEST(FieldCases, J5_GradientsOfBf16AccumulateInFp32) {
  EngineSpec one = small_spec(6, 12);
  one.training.precision = Precision::kBf16;
  EngineSpec six = small_spec(1, 12);
  six.training.precision = Precision::kBf16;
  six.training.gradient_accumulation_steps = 6;
  const std::unique_ptr<Engine> a = make_engine(one), b = make_engine(six);
  const StepResult whole = a->step({.learning_rate = 0.1}, rows_of(6, 12));
  const StepResult split = b->step({.learning_rate = 0.1}, rows_of(1, 12));
  EXPECT_NEAR(split.grad_norm, whole.grad_norm, 1e-5 * whole.grad_norm);
  expect_near(values_of(*b), values_of(*a), 1e-6f);
}

}  // namespace
}  // namespace cadre::train
