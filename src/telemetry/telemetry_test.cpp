#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "telemetry/resident.h"
#include "telemetry/step_metrics.h"
#include "telemetry/tensorboard.h"
#include "telemetry/trace_file.h"

namespace cadre {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Metrics, AreOneJsonObjectPerStep) {
  const nlohmann::json json = nlohmann::json::parse(
      to_json_line({.step = 3, .loss = std::nan(""), .learning_rate = 0.5, .skipped = true}));
  EXPECT_EQ(json["step"], 3);
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_EQ(json["lr"], 0.5);
  EXPECT_EQ(json["skipped"], true);
  EXPECT_FALSE(json.contains("validation_loss"));
  EXPECT_EQ(json["memory"]["gradients"], 0);
}

TEST(Metrics, ForgetTheStepsThatWillBeMadeAgain) {
  const std::filesystem::path path = fresh_folder("metrics") / "metrics.jsonl";
  {
    Result<MetricsFile> file = MetricsFile::open(path, -1);
    ASSERT_TRUE(file.ok());
    for (int64_t step = 1; step <= 4; ++step) {
      ASSERT_TRUE(file->append({.step = step}).ok());
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 5, \"lo";  // killed while it wrote
  ASSERT_TRUE(MetricsFile::open(path, 2).ok());
  EXPECT_EQ(contents(path), to_json_line({.step = 1}) + "\n" + to_json_line({.step = 2}) + "\n");
}

TEST(TensorBoard, KnowsThePublishedChecksum) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

// Byte by byte: length 8, field 1 (double), field 2 (varint 300), field 5 {1 {1 "a", 2 1.5f}}.
TEST(TensorBoard, WritesTheRecordsThatTensorBoardReads) {
  const std::filesystem::path folder = fresh_folder("tensorboard");
  {
    Result<TensorBoardFile> file = TensorBoardFile::create(folder);
    ASSERT_TRUE(file.ok());
    const Scalar scalar{.tag = "a", .value = 1.5};
    ASSERT_TRUE(file->append(300, {&scalar, 1}).ok());
  }
  const std::string bytes = contents(std::filesystem::directory_iterator(folder)->path());
  constexpr size_t kFirst = 8 + 4 + (9 + 2 + 13) + 4;
  ASSERT_EQ(bytes.size(), kFirst + 8 + 4 + (9 + 3 + 12) + 4);
  EXPECT_EQ(bytes.substr(8 + 4 + 9, 15), std::string("\x1A\x0D") + "brain.Event:2");
  const std::string event = bytes.substr(kFirst + 12, 24);
  EXPECT_EQ(event.substr(9), std::string("\x10\xAC\x02\x2A\x0A\x0A\x08\x0A\x01"
                                         "a\x15\x00\x00\xC0\x3F",
                                         15));
}

TEST(TraceFile, HoldsEveryOpWithItsCost) {
  const std::filesystem::path path = fresh_folder("trace") / "trace.json";
  const BookedOp op{.name = "matmul", .flops = 2000, .bytes_read = 300, .bytes_written = 200};
  ASSERT_TRUE(write_chrome_trace(path, {{.op = op, .start_ns = 5000, .end_ns = 6000}}).ok());
  const nlohmann::json json = nlohmann::json::parse(contents(path));
  ASSERT_EQ(json["traceEvents"].size(), 1u);
  const nlohmann::json event = json["traceEvents"][0];
  EXPECT_EQ(event["name"], "matmul");
  EXPECT_EQ(event["dur"], 1.0);
  EXPECT_NEAR(event["args"]["gflops_per_second"].get<double>(), 2.0, 1e-9);
}

TEST(Resident, CountsWhatIsTouched) {
  const int64_t before = resident_bytes();
  const std::vector<char> touched(64 << 20, 1);
  EXPECT_GT(resident_bytes(), before + (60 << 20));
  EXPECT_GT(touched[5], 0);
}

}  // namespace
}  // namespace cadre
