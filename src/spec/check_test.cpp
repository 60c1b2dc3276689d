#include "spec/check.h"

#include <gtest/gtest.h>

#include <string>

#include "spec/testing.h"

namespace cadre {
namespace {

using spec_testing::kModel;
using spec_testing::loaded;
using spec_testing::refusal;
using spec_testing::with_training;

std::string with_model(std::string_view keys, std::string_view rest = "") {
  return concat("model: {model_type: llama", keys, "}\ntraining: {steps: 1}\n", rest);
}

TEST(Combinations, ExactlyOneOfStepsAndEpochs) {
  EXPECT_EQ(
      refusal(kModel),
      "run.yaml: training: neither steps nor epochs is given; allowed: exactly one of the two");
  EXPECT_EQ(refusal(with_training("  num_train_epochs: 2\n")),
            "run.yaml:3:10: training.steps: given beside training.num_train_epochs: 2 "
            "(run.yaml:4:21); allowed: at most one of training.steps and training.epochs");
  EXPECT_EQ(refusal(with_training("  epochs: null\n")), "");
}

TEST(Combinations, AtMostOneWayToSayWarmUpAndDecay) {
  EXPECT_EQ(refusal(with_training("  warmup_steps: 2\n  warmup_ratio: 0.1\n")),
            "run.yaml:4:17: training.warmup_steps: given beside training.warmup_ratio: 0.1 "
            "(run.yaml:5:17); allowed: at most one of training.warmup_steps and "
            "training.warmup_ratio");
  EXPECT_EQ(refusal(with_training("  decay_steps: 3\n")),
            "run.yaml:4:16: training.decay_steps: has no effect; allowed: with lr_scheduler: "
            "warmup_stable_decay");
  EXPECT_EQ(refusal(with_training("  lr_scheduler: wsd\n  warmup_steps: 4\n  decay_steps: 7\n")),
            "run.yaml:5:17: training.warmup_steps: 4 steps of warm-up and 7 of decay; allowed: "
            "together at most training.steps, 10");
  EXPECT_EQ(refusal(with_training("  lr_scheduler: wsd\n  warmup_steps: 3\n  decay_steps: 7\n")),
            "");
  EXPECT_EQ(
      refusal(with_training("  lr_scheduler: wsd\n  warmup_ratio: 0.75\n  decay_ratio: 0.5\n")),
      "run.yaml:5:17: training.warmup_ratio: warmup_ratio 0.75 and decay_ratio 0.5; allowed: "
      "together at most 1");
}

TEST(Combinations, TheTokensOfAStepCanBeCounted) {
  const std::string_view large = "data: {sequence_length: 1048576}\n";
  EXPECT_EQ(refusal(with_training("  micro_batch_size: 4\n"
                                  "  gradient_accumulation_steps: 2147483647\n") +
                    std::string(large)),
            "");  // just below 2^53
  EXPECT_EQ(refusal(with_training("  micro_batch_size: 5\n"
                                  "  gradient_accumulation_steps: 2147483647\n") +
                    std::string(large)),
            "run.yaml:4:21: training.micro_batch_size: 5 sequences of 1048576 tokens, 2147483647 "
            "times, are 1.1259e+16 tokens of one step; allowed: at most 9.0072e+15");
}

TEST(Combinations, TheModelComesFromSomewhere) {
  EXPECT_EQ(
      refusal("training: {steps: 1}\n"),
      "run.yaml: model: neither from nor model_type is given; allowed: from: DIR of a Hugging "
      "Face model, or the keys of its config.json");
  EXPECT_EQ(refusal(with_model(", load_weights: false")),
            "run.yaml:1:42: model.load_weights: found false without model.from; allowed: with it");
  EXPECT_EQ(
      refusal("model: {from: a}\ntokenizer: {train: {vocab_size: 500}}\ntraining: {steps: 1}\n"),
      "run.yaml:2:33: tokenizer.train.vocab_size: a new tokenizer does not fit the weights of "
      "model.from; allowed: without it, or with model.load_weights: false");
}

TEST(Combinations, HeadsDivide) {
  EXPECT_EQ(refusal(with_model(", hidden_size: 24, num_attention_heads: 5")),
            "run.yaml:1:66: model.num_attention_heads: found 5; allowed: a divisor of "
            "model.hidden_size, 24");
  EXPECT_EQ(refusal(with_model(", hidden_size: 24, num_attention_heads: 5, head_dim: 8")), "");
  EXPECT_EQ(refusal(with_model(", num_attention_heads: 6, num_key_value_heads: 4")),
            "run.yaml:1:73: model.num_key_value_heads: found 4; allowed: a divisor of "
            "model.num_attention_heads, 6");
  EXPECT_EQ(refusal("model: {model_type: gpt2, n_embd: 12, n_head: 5}\ntraining: {steps: 1}\n"),
            "run.yaml:1:47: model.n_head: found 5; allowed: a divisor of model.n_embd, 12");
}

TEST(Combinations, TheVocabularyHoldsTheTokenizer) {
  EXPECT_EQ(refusal(with_model(", vocab_size: 400", "tokenizer: {train: {vocab_size: 512}}\n")),
            "run.yaml:1:40: model.vocab_size: found 400; allowed: at least "
            "tokenizer.train.vocab_size, 512, or nothing");
  EXPECT_EQ(refusal(with_model(", vocab_size: 512", "tokenizer: {train: {vocab_size: 512}}\n")),
            "");
}

TEST(Combinations, TextNeedsOneTokenizer) {
  EXPECT_EQ(refusal(with_model("", "data: {sources: [{paths: a, format: jsonl}]}\n")),
            "run.yaml:3:18: data.sources[0]: is text, but there is no tokenizer; allowed: with "
            "tokenizer.from, tokenizer.train or model.from");
  EXPECT_EQ(refusal(with_model("", "data: {sources: [{paths: a, format: tokens_u16}]}\n")), "");
  EXPECT_EQ(
      refusal(with_model("", "tokenizer: {from: a, train: {vocab_size: 512}}\n")),
      "run.yaml:3:19: tokenizer.from: given beside tokenizer.train.vocab_size: 512 "
      "(run.yaml:3:42); allowed: at most one of tokenizer.from and tokenizer.train.vocab_size");
}

TEST(Combinations, LearnedPositionsBoundTheSequence) {
  EXPECT_EQ(
      refusal("model: {model_type: gpt2, n_positions: 64}\ndata: {sequence_length: 65}\n"
              "training: {steps: 1}\n"),
      "run.yaml:2:25: data.sequence_length: found 65; allowed: at most model.n_positions, 64, "
      "as positions are learned");
  EXPECT_EQ(
      loaded(with_model(", max_position_embeddings: 64", "data: {sequence_length: 65}\n")).notes,
      std::vector<std::string>{
          "/conf/run.yaml:3:25: data.sequence_length: 65 is more than the model's "
          "max_position_embeddings, 64; rotary positions go on, untrained"});
}

TEST(Combinations, EveryWayToSplitIsRefusedByName) {
  EXPECT_EQ(
      refusal(with_training("") + "parallel:\n  data_parallel_size: 2\n"
                                  "  tensor_parallel_size: 4\n  pipeline_parallel_size: 8\n"
                                  "  context_parallel_size: 3\n  expert_parallel_size: 5\n"
                                  "  sequence_parallel: true\n"),
      "run.yaml:5:23: parallel.data_parallel_size: found 2; allowed: 1, as this version of "
      "cadre runs one process\n"
      "run.yaml:6:25: parallel.tensor_parallel_size: found 4; allowed: 1, as this version of "
      "cadre runs one process\n"
      "run.yaml:7:27: parallel.pipeline_parallel_size: found 8; allowed: 1, as this version of "
      "cadre runs one process\n"
      "run.yaml:8:26: parallel.context_parallel_size: found 3; allowed: 1, as this version of "
      "cadre runs one process\n"
      "run.yaml:9:25: parallel.expert_parallel_size: found 5; allowed: 1, as this version of "
      "cadre runs one process");
  EXPECT_EQ(refusal(with_training("") + "parallel: {sequence_parallel: true}\n"),
            "run.yaml:4:31: parallel.sequence_parallel: found true; allowed: with "
            "parallel.tensor_parallel_size above 1");
  EXPECT_EQ(loaded(with_training("") + "parallel: {data_parallel_size: 1, zero_stage: 3}\n").notes,
            std::vector<std::string>{"/conf/run.yaml:4:47: parallel.zero_stage: 3 changes nothing "
                                     "with one process, which holds every shard"});
}

TEST(Combinations, RefusesOptionsThatCannotBeMeant) {
  EXPECT_EQ(refusal(with_training("  optimizer: sgd\n  nesterov: true\n")),
            "run.yaml:5:13: training.nesterov: found true without momentum; allowed: with "
            "training.momentum above 0");
  EXPECT_EQ(refusal(with_training("  loss_spike_threshold: 0.5\n")),
            "run.yaml:4:25: training.loss_spike_threshold: found 0.5, which every loss exceeds; "
            "allowed: 0, or a number above 1");
  EXPECT_EQ(refusal(with_training("  parameter_groups: [{parameters: []}]\n")),
            "run.yaml:4:35: training.parameter_groups[0].parameters: found an empty list; allowed: "
            "at least one glob");
  EXPECT_EQ(
      refusal(
          with_training("  parameter_groups: [{parameters: a, frozen: true, weight_decay: 0}]\n")),
      "run.yaml:4:46: training.parameter_groups[0].frozen: found true beside learning_rate_scale "
      "or weight_decay; allowed: one or the other");
  EXPECT_EQ(
      refusal("name: ../x\n" + with_training("")),
      "run.yaml:1:7: name: found \"../x\"; allowed: a text that can name a folder, without /");
}

TEST(Combinations, TheResolvedModelIsCheckedToo) {
  const LoadedRun run =
      loaded("model: {from: a}\ntraining: {steps: 1}\ndata: {sequence_length: 128}\n");
  ModelSpec model;
  model.max_position_embeddings = 64;
  EXPECT_TRUE(check_model(run, model).ok());
  model.positions = PositionKind::kLearned;
  EXPECT_EQ(check_model(run, model).error().message,
            "/conf/run.yaml:3:25: data.sequence_length: found 128; allowed: at most the model's 64 "
            "positions, as they are learned");
}

TEST(Combinations, TrainingNeedsDataAndPlanningDoesNot) {
  EXPECT_EQ(check_trainable(loaded(with_training(""))).error().message,
            "/conf/run.yaml: data.sources: not given; allowed: at least one source, as in "
            "`sources: [{paths: [corpus.txt]}]`");
  EXPECT_TRUE(check_trainable(loaded(with_training("") + "data: {sources: [{paths: a}]}\n")).ok());
}

}  // namespace
}  // namespace cadre
