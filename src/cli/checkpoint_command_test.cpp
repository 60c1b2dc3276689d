#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/save.h"
#include "cli/commands.h"
#include "storage/file.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

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
  add_checkpoint_command(app, outcome.exit_code);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  app.parse(reversed);
  std::fflush(stdout);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

class CheckpointCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
    const ConstTensor tensor{std::as_bytes(std::span(values)).data(), DType::kF32, {2, 3}, {3, 1}};
    const CheckpointContents contents{.model = {whole_tensor("w", DType::kF32, tensor)},
                                      .config = Json::object()};
    for (const int64_t step : {5, 10}) {
      ASSERT_TRUE(save_checkpoint(folder / "run/checkpoints", step, contents));
    }
  }

  void corrupt(const std::filesystem::path& file) {
    std::string text = *read_file(file);
    text.back() = static_cast<char>(text.back() ^ 1);
    ASSERT_TRUE(write_file(file, text));
  }

  testing::TemporaryFolder folder;
};

TEST_F(CheckpointCommand, ListsARunByItsFolderOrThatOfItsCheckpoints) {
  const Outcome of_run = run({"checkpoint", "list", (folder / "run").string()});
  EXPECT_EQ(of_run.exit_code, 0);
  EXPECT_NE(of_run.out.find("         5  "), std::string::npos) << of_run.out;
  EXPECT_NE(of_run.out.find("/run/checkpoints/step-00000010\n"), std::string::npos) << of_run.out;
  EXPECT_EQ(run({"checkpoint", "list", (folder / "run/checkpoints").string()}).out, of_run.out);
}

TEST_F(CheckpointCommand, ListsAsJsonWithWhatIsWrong) {
  std::filesystem::remove(folder / "run/checkpoints/step-00000010/config.json");
  const Outcome outcome = run({"checkpoint", "list", (folder / "run").string(), "--json"});
  const size_t newline = outcome.out.find('\n');
  const Json first = Json::parse(outcome.out.substr(0, newline));
  const Json second = Json::parse(outcome.out.substr(newline));
  EXPECT_EQ(first["step"], 5);
  EXPECT_EQ(first["complete"], true);
  EXPECT_EQ(second["complete"], false);
  EXPECT_NE(second["problem"].get<std::string>().find("config.json"), std::string::npos);
}

TEST_F(CheckpointCommand, VerifiesEveryByteAndExitsWith2IfOneIsWrong) {
  const std::string run_folder = (folder / "run").string();
  const std::filesystem::path checkpoint = folder / "run/checkpoints/step-00000005";
  EXPECT_EQ(run({"checkpoint", "verify", run_folder}).exit_code, 0);
  EXPECT_EQ(run({"checkpoint", "verify", checkpoint.string()}).exit_code, 0);
  corrupt(checkpoint / "model.safetensors");
  const Outcome all = run({"checkpoint", "verify", run_folder});
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_NE(all.out.find("\"model.safetensors\" is corrupt"), std::string::npos) << all.out;
  const Outcome one = run({"checkpoint", "verify", checkpoint.string()});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_NE(one.err.find("\"model.safetensors\" is corrupt"), std::string::npos) << one.err;
}

TEST_F(CheckpointCommand, RefusesFoldersThatAreNotThereOrHoldNothing) {
  EXPECT_EQ(run({"checkpoint", "list", (folder / "none").string()}).exit_code, 2);
  EXPECT_EQ(run({"checkpoint", "verify", (folder / "none").string()}).exit_code, 2);
  const Outcome empty = run({"checkpoint", "verify", folder.path().string()});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_NE(empty.err.find("holds no checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace cadre
