#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "model/family.h"
#include "spec/read.h"
#include "spec/reference.h"

namespace cadre {
namespace {

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> arguments) {
  CLI::App app;
  Outcome outcome;
  add_config_command(app, outcome.exit_code);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  app.parse(reversed);
  std::fflush(stdout);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(ConfigCommand, PrintsTheReference) {
  EXPECT_EQ(run({"config", "reference"}).out, configuration_reference());
}

TEST(ConfigCommand, ChecksAFileWithItsOverrides) {
  const std::string path = testing::TempDir() + "config_test.yaml";
  std::ofstream(path) << "model: {model_type: llama}\ntraining: {steps: 5}\n";
  const Outcome good =
      run({"config", "check", path, "--set", "training.steps=7", "--set", "parallel.zero_stage=1"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_NE(good.out.find("\n  steps: 7\n"), std::string::npos) << good.out;
  EXPECT_EQ(good.err,
            "--set parallel.zero_stage: parallel.zero_stage: 1 changes nothing with one process, "
            "which holds every shard\n");
  const Outcome bad = run({"config", "check", path, "--set", "training.steps=none"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_EQ(bad.out, "");
  EXPECT_EQ(
      bad.err,
      "cadre: --set training.steps: found none; allowed: a whole number, at least 1 and at most "
      "1000000000000000\n");
  std::remove(path.c_str());
}

// The schema lists the keys of config.json, and so does each family: neither may know less.
TEST(ConfigCommand, AcceptsEveryConfigThatAFamilyWrites) {
  for (const model::Family* family : model::families()) {
    const Json least = {{"model_type", family->model_type}, {"vocab_size", 300}};
    const Result<ModelSpec> spec = model::read_model_config(least, "least");
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    const Json written = model::write_model_config(*spec, "float32");
    const Result<LoadedRun> loaded = read_run_text(
        concat("model: ", written.dump(), "\ntraining: {steps: 1}\n"), "/conf/run.yaml");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Result<ModelSpec> again = model::read_model_config(loaded->run.model.config, "again");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, *spec) << family->model_type;
  }
}

}  // namespace
}  // namespace cadre
