#include "spec/deepspeed.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "spec/json_places.h"
#include "spec/testing.h"

namespace cadre {
namespace {

using Lines = std::vector<std::string>;

// A DeepSpeed file that ends with the test.
class File {
 public:
  explicit File(std::string_view text)
      : path_(concat(testing::TempDir(), "ds-", getpid(), ".json")) {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }

  std::string without_path(std::string message) const {
    for (size_t at = message.find(path_); at != std::string::npos; at = message.find(path_)) {
      message.replace(at, path_.size(), "ds.json");
    }
    return message;
  }

 private:
  std::string path_;
};

LoadedRun merged(std::string_view json, std::string_view training = "") {
  const File file(json);
  LoadedRun run =
      spec_testing::loaded(spec_testing::with_training(training), {.deepspeed = file.path()});
  for (std::string& note : run.notes) {
    note = file.without_path(note);
  }
  return run;
}

std::string refusal(std::string_view json, std::string_view training = "") {
  const File file(json);
  return file.without_path(
      spec_testing::refusal(spec_testing::with_training(training), {.deepspeed = file.path()}));
}

TEST(DeepSpeed, TakesAZero3File) {
  const LoadedRun run = merged(R"({
  "bf16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 3,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    },
    "offload_param": {
      "device": "cpu",
      "pin_memory": true
    },
    "overlap_comm": true,
    "contiguous_gradients": true,
    "sub_group_size": 1e9,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1e9,
    "stage3_max_reuse_distance": 1e9,
    "stage3_gather_16bit_weights_on_model_save": true
  },
  "gradient_accumulation_steps": 32,
  "gradient_clipping": 0.5,
  "train_micro_batch_size_per_gpu": 1,
  "wall_clock_breakdown": false,
  "communication_data_type": "bf16"
})");
  EXPECT_EQ(run.run.training.precision, Precision::kBf16);
  EXPECT_EQ(run.run.parallel.zero_stage, 3);
  EXPECT_EQ(run.run.training.gradient_accumulation_steps, 32);
  EXPECT_EQ(run.run.training.micro_batch_size, 1);
  EXPECT_EQ(run.run.training.max_grad_norm, 0.5);
  ASSERT_EQ(run.notes.size(), 14u);  // each key without a meaning once, and what stage 3 comes to
  EXPECT_EQ(
      run.notes[0],
      "ds.json:7:26: zero_optimization.offload_optimizer: has no meaning here and is ignored: "
      "nothing is offloaded: memory is one, the host's");
  EXPECT_EQ(
      run.notes[11],
      "ds.json:28:27: wall_clock_breakdown: has no meaning here and is ignored: every step is "
      "measured: metrics.jsonl, TensorBoard and --trace");
  EXPECT_EQ(run.notes[13],
            "ds.json:6:14: parallel.zero_stage: 3 changes nothing with one process, which holds "
            "every shard");
}

TEST(DeepSpeed, AutoLeavesTheValueOfTheConfiguration) {
  const LoadedRun run = merged(
      R"({"train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto",
          "bf16": {"enabled": "auto"}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}})",
      "  micro_batch_size: 3\n  learning_rate: 1e-4\n  bf16: true\n");
  EXPECT_EQ(run.run.training.micro_batch_size, 3);
  EXPECT_EQ(run.run.training.schedule.learning_rate, 1e-4);
  EXPECT_EQ(run.run.training.precision, Precision::kBf16);
  EXPECT_EQ(
      run.notes,
      (Lines{"ds.json:1:36: train_micro_batch_size_per_gpu: auto, which is "
             "training.micro_batch_size of the configuration",
             "ds.json:1:64: train_batch_size: auto, which is "
             "training.gradient_accumulation_steps of the configuration",
             "ds.json:2:31: bf16.enabled: auto, which is training.precision of the "
             "configuration",
             "ds.json:2:88: optimizer.params.lr: auto, which is training.learning_rate of the "
             "configuration"}));
}

TEST(DeepSpeed, MapsTheOptimizerAndTheScheduler) {
  const TrainingSpec training =
      merged(R"({"optimizer": {"type": "Adam", "params": {"lr": 3e-5, "betas": [0.8, 0.7],
                                "eps": 1e-7, "weight_decay": 3e-7}},
                 "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0,
                                "warmup_max_lr": 3e-5, "warmup_num_steps": 4,
                                "total_num_steps": 10}}})")
          .run.training;
  EXPECT_EQ(training.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(training.optimizer.beta1, 0.8);
  EXPECT_EQ(training.optimizer.beta2, 0.7);
  EXPECT_EQ(training.optimizer.epsilon, 1e-7);
  EXPECT_EQ(training.optimizer.weight_decay, 3e-7);
  EXPECT_EQ(training.schedule.learning_rate, 3e-5);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::kLinear);
  EXPECT_EQ(training.schedule.min_lr_ratio, 0);
  EXPECT_EQ(training.schedule.warmup_steps, 4);
  const ScheduleSpec cosine =
      merged(R"({"scheduler": {"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.05}}})")
          .run.training.schedule;
  EXPECT_EQ(cosine.kind, ScheduleKind::kCosine);
  EXPECT_EQ(cosine.min_lr_ratio, 0.05);
}

TEST(DeepSpeed, MapsTheLossScale) {
  const TrainingSpec training =
      merged(R"({"fp16": {"enabled": true, "initial_scale_power": 12, "loss_scale_window": 500}})")
          .run.training;
  EXPECT_EQ(training.precision, Precision::kFp16);
  EXPECT_EQ(training.initial_loss_scale, 4096);
  EXPECT_EQ(training.loss_scale_window, 500);
  // Switched off, the block says nothing else.
  const TrainingSpec off =
      merged(R"({"fp16": {"enabled": false, "initial_scale_power": 12}})", "  bf16: true\n")
          .run.training;
  EXPECT_EQ(off.precision, Precision::kBf16);
  EXPECT_EQ(off.initial_loss_scale, TrainingSpec().initial_loss_scale);
}

TEST(DeepSpeed, TheWholeBatchIsTheProduct) {
  const auto batch = [](std::string_view json, std::string_view training) {
    const TrainingSpec spec = merged(json, training).run.training;
    return std::pair(spec.micro_batch_size, spec.gradient_accumulation_steps);
  };
  EXPECT_EQ(batch(R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 3})", ""),
            (std::pair<int64_t, int64_t>(3, 4)));
  EXPECT_EQ(batch(R"({"train_batch_size": 12})", "  gradient_accumulation_steps: 2\n"),
            (std::pair<int64_t, int64_t>(6, 2)));
  EXPECT_EQ(batch(R"({"train_batch_size": 12})", ""), (std::pair<int64_t, int64_t>(12, 1)));
  EXPECT_EQ(refusal(R"({"train_batch_size": 12, "gradient_accumulation_steps": 4})",
                    "  micro_batch_size: 4\n"),
            "ds.json:1:22: train_batch_size: found 12, which is not training.micro_batch_size: 4 "
            "(run.yaml:4:21) times gradient_accumulation_steps: 4 (ds.json:1:57) times 1 replica");
  EXPECT_EQ(refusal(R"({"train_batch_size": 12})", "  micro_batch_size: 5\n"),
            "ds.json:1:22: train_batch_size: found 12, which is not training.micro_batch_size: 5 "
            "(run.yaml:4:21) times training.gradient_accumulation_steps times 1 replica");
  EXPECT_EQ(refusal(R"({"train_batch_size": 6, "gradient_accumulation_steps": 2147483647})",
                    "  micro_batch_size: 2147483647\n"),
            "ds.json:1:22: train_batch_size: found 6, which is not training.micro_batch_size: "
            "2147483647 (run.yaml:4:21) times gradient_accumulation_steps: 2147483647 "
            "(ds.json:1:56) times 1 replica\n"
            "run.yaml:4:21: training.micro_batch_size: 2147483647 sequences of 256 tokens, "
            "2147483647 times, are 1.18059e+21 tokens of one step; allowed: at most 9.0072e+15");
}

TEST(DeepSpeed, AContradictionNamesBothPlaces) {
  EXPECT_EQ(refusal(R"({"gradient_accumulation_steps": 32})", "  gradient_accumulation_steps: 8\n"),
            "ds.json:1:33: gradient_accumulation_steps: 32: contradicts "
            "training.gradient_accumulation_steps: 8 (run.yaml:4:32)");
  EXPECT_EQ(refusal(R"({"bf16": {"enabled": true}})", "  fp16: true\n"),
            "ds.json:1:22: bf16.enabled: true: contradicts training.fp16: true (run.yaml:4:9)");
  EXPECT_EQ(refusal(R"({"bf16": {"enabled": false}})", "  precision: bf16\n"),
            "ds.json:1:22: bf16.enabled: false: contradicts training.precision: bf16 "
            "(run.yaml:4:14)");
  EXPECT_EQ(refusal(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"),
            "ds.json:1:49: fp16.enabled: true: contradicts bf16.enabled: true (ds.json:1:22)");
  EXPECT_EQ(refusal(R"({"gradient_clipping": 1.0})", "  max_grad_norm: 1\n"), "");
  EXPECT_EQ(refusal(R"({"scheduler": {"type": "WarmupLR"}})", "  lr_scheduler: cosine\n"),
            "ds.json:1:24: scheduler.type: WarmupLR: contradicts training.lr_scheduler: cosine "
            "(run.yaml:4:17)");
}

TEST(DeepSpeed, RefusesWhatItCannotDoAndWhatIsMisspelt) {
  EXPECT_EQ(
      refusal(R"({"optimizer": {"type": "Lamb"}})"),
      "ds.json:1:24: optimizer.type: found \"Lamb\"; allowed: Adam, AdamW, Lion, Muon and SGD");
  EXPECT_EQ(
      refusal(R"({"scheduler": {"type": "OneCycle"}})"),
      "ds.json:1:24: scheduler.type: found \"OneCycle\"; allowed: WarmupLR, WarmupDecayLR and "
      "WarmupCosineLR");
  EXPECT_EQ(refusal(R"({"gradient_acumulation_steps": 2})"),
            "ds.json:1:32: gradient_acumulation_steps: unknown key; did you mean "
            "\"gradient_accumulation_steps\"?");
  EXPECT_EQ(
      refusal(R"({"zero_optimization": {"stage": 4}})"),
      "ds.json:1:33: zero_optimization.stage: found 4; allowed: a whole number, at least 0 and "
      "at most 3");
  EXPECT_EQ(refusal(R"({"gradient_clipping": "1.0"})"),
            "ds.json:1:23: gradient_clipping: found \"1.0\", a text; remove the quotes; allowed: a "
            "number, at least 0");
  EXPECT_EQ(refusal(R"({"bf16": true})"), "ds.json:1:10: bf16: found true; allowed: an object");
  EXPECT_EQ(refusal(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})"),
            "ds.json:1:58: optimizer.params.adam_w_mode: found false, Adam with its decay in the "
            "gradient; allowed: true, which is AdamW");
  EXPECT_EQ(refusal("[]"),
            "ds.json: a DeepSpeed configuration is a JSON object; found something else");
  EXPECT_NE(refusal("{").find("--deepspeed: ds.json:1:"), std::string::npos);
  EXPECT_EQ(spec_testing::refusal(spec_testing::with_training(""), {.deepspeed = "/nowhere.json"}),
            "the DeepSpeed configuration \"/nowhere.json\" does not exist");
  EXPECT_EQ(
      merged(R"({"my_own_extension": 1})").notes,
      Lines{"ds.json:1:22: my_own_extension: is not a key of DeepSpeed that cadre knows, and is "
            "ignored"});
}

TEST(JsonPlaces, NamesLineAndColumnOfEveryKey) {
  const auto places =
      json_places("{\n \"é\": {\"a\\n\": [1, {\"x\": 2}],\t\"b\": -1.5e3 }, \"c\":\"}\\\"\"}", "f");
  EXPECT_EQ(places.at("é"), "f:2:7");
  EXPECT_EQ(places.at("é.a\n"), "f:2:15");
  EXPECT_EQ(places.at("é.a\n[].x"), "f:2:25");
  EXPECT_EQ(places.at("é.b"), "f:2:35");
  EXPECT_EQ(places.at("c"), "f:2:49");
}

}  // namespace
}  // namespace cadre
