#include "spec/print.h"

#include <gtest/gtest.h>

#include <string>

#include "spec/testing.h"

namespace cadre {
namespace {

RunSpec read_back(const RunSpec& run) {
  const std::string text = print_run(run);
  Result<LoadedRun> result = read_run_text(text, "/elsewhere/other.yaml");
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message) << "\n" << text;
  return result.ok() ? result->run : RunSpec();
}

constexpr const char* kEveryKey = R"(
name: "1e3"
output: 'out dir'
threads: 3
model:
  from: models/a b
  load_weights: false
  rope_scaling: {rope_type: yarn, factor: 4.5, truncate: false, mscale: 0.70710678118654757}
  layer_types: [full_attention, sliding_attention]
  eos_token_id: [1, 2]
  sliding_window: null
  torch_dtype: bfloat16
  task_specific_params: {a: [1, 2.0, "3", true, null], "b c": {d: "yes"}}
tokenizer: {train: {vocab_size: 777}}
data:
  sources:
    - {name: "no", paths: ["*.txt", b], exclude: ['*/build/*'], format: text, weight: 0.1}
    - {paths: c.jsonl.gz, format: jsonl, field: "the: text"}
  validation: [{paths: d}]
  validation_fraction: 0
  sequence_length: 33
  packing: document
  shuffle: false
  append_eos: false
  cache_directory: /cache
training:
  micro_batch_size: 3
  gradient_accumulation_steps: 5
  epochs: 0.1
  precision: fp16
  gradient_checkpointing: true
  activation_checkpointing_granularity: selective
  seed: 18446744073709551615
  optimizer: muon
  learning_rate: 0.30000000000000004
  weight_decay: 0
  beta1: 0.25
  beta2: 0.125
  epsilon: 1e-30
  momentum: 0.5
  nesterov: true
  muon_momentum: 0.75
  muon_newton_schulz_steps: 6
  muon_learning_rate_scale: 0.2
  lr_scheduler: wsd
  min_lr_ratio: 0
  warmup_steps: 0
  decay_ratio: 0.2
  parameter_groups:
    - {parameters: ["*.bias", lm_head.weight], learning_rate_scale: 0, weight_decay: 0}
    - {parameters: x, frozen: true}
  max_grad_norm: 0
  z_loss: 1e-4
  dropout: 0
  initial_loss_scale: 1024
  loss_scale_window: 7
  on_bad_step: skip
  bad_steps_max: 9
  loss_spike_threshold: 3
  eval_every: 11
  eval_batches_max: 12
checkpoint: {every: 13, keep: 0, save_optimizer: false}
parallel: {data_parallel_size: 1, zero_stage: 3}
sample: {prompt: "Es war\n\teinmal\u007f \\ \"…\" # 🦊", tokens: 0, temperature: 0, top_k: 5, top_p: 0.5, seed: 9}
)";

TEST(PrintRun, ReadsBackToTheSameRunWithEveryKeySet) {
  const RunSpec run = spec_testing::loaded(kEveryKey).run;
  EXPECT_EQ(run.sample.prompt, "Es war\n\teinmal\x7F \\ \"…\" # 🦊");
  EXPECT_TRUE(read_back(run) == run) << print_run(run) << "\nread back:\n"
                                     << print_run(read_back(run));
}

TEST(PrintRun, ReadsBackToTheSameRunWithNothingSet) {
  const RunSpec run = spec_testing::loaded(spec_testing::with_training("")).run;
  EXPECT_TRUE(read_back(run) == run) << print_run(run);
  EXPECT_EQ(run.tokenizer, std::nullopt);
}

TEST(PrintRun, QuotesWhatOtherReadersWouldMisread) {
  RunSpec run = spec_testing::loaded(spec_testing::with_training("")).run;
  const auto prompt = [&run](std::string_view text) {
    run.sample.prompt = text;
    const std::string printed = print_run(run);
    EXPECT_EQ(read_back(run).sample.prompt, text);
    const size_t at = printed.find("prompt: ") + 8;
    return printed.substr(at, printed.find('\n', at) - at);
  };
  EXPECT_EQ(prompt("plain"), "plain");
  EXPECT_EQ(prompt("No"), "\"No\"");
  EXPECT_EQ(prompt("null"), "\"null\"");
  EXPECT_EQ(prompt("12"), "\"12\"");
  EXPECT_EQ(prompt("two words"), "\"two words\"");
  EXPECT_EQ(prompt("~"), "\"~\"");
}

}  // namespace
}  // namespace cadre
