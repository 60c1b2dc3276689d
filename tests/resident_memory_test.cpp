// The ledger is the truth: what the operating system counts of a process, minus what it counts of
// one that does nothing, is what the ledger says.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

struct Finished {
  int exit_code = -1;
  int64_t resident_bytes_max = 0;  // as the kernel counted
  std::string out;
};

// Runs the program; its stdout goes through a file, since a pipe would have to be emptied.
Finished run_program(const std::vector<std::string>& arguments) {
  const testing::TemporaryFolder folder;
  const std::string out = (folder / "stdout").string();
  std::vector<char*> words;
  std::string program = CADRE_PROGRAM;
  words.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& copy : copies) {
    words.push_back(copy.data());
  }
  words.push_back(nullptr);
  const pid_t child = fork();
  CADRE_CHECK(child >= 0);
  if (child == 0) {
    const int file = open(out.c_str(), O_CREAT | O_WRONLY, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
      _exit(126);
    }
    execv(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  CADRE_CHECK_EQ(wait4(child, &status, 0, &usage), child);
  std::stringstream text;
  text << std::ifstream(out).rdbuf();
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .resident_bytes_max = int64_t{usage.ru_maxrss} * 1024,
          .out = text.str()};
}

int64_t sum_of(const Json& memory_bytes) {
  int64_t sum = 0;
  for (const auto& [category, bytes] : memory_bytes.items()) {
    sum += bytes.get<int64_t>();
  }
  return sum;
}

class ResidentMemory : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef CADRE_SANITIZED
    GTEST_SKIP() << "a sanitizer has memory of its own";
#endif
    const Finished idle = run_program({"--version"});
    ASSERT_EQ(idle.exit_code, 0);
    idle_bytes_ = idle.resident_bytes_max;
  }

  void expect_as_in_the_ledger(int64_t resident_bytes, int64_t ledger_bytes) const {
    const auto ledger = static_cast<double>(ledger_bytes);
    EXPECT_NEAR(static_cast<double>(resident_bytes - idle_bytes_), ledger,
                0.05 * ledger + double{16 << 20})
        << "of an idle process: " << idle_bytes_;
  }

 private:
  int64_t idle_bytes_ = 0;
};

struct BenchCase {
  std::string name;
  std::vector<std::string> flags;
};

class BenchMemory : public ResidentMemory, public ::testing::WithParamInterface<BenchCase> {};

std::vector<BenchCase> bench_cases() {
  std::vector<BenchCase> cases;
  for (const std::string precision : {"fp32", "bf16"}) {
    for (const std::string recompute : {"false", "full"}) {
      const std::vector<std::string> both = {"--precision", precision, "--gradient-checkpointing",
                                             recompute};
      for (std::vector<std::string> flags :
           {std::vector<std::string>{"--shape", "S", "--batch", "8"},
            {"--shape", "M", "--batch", "2", "--seq", "128"}}) {
        const std::string name =
            flags[1] + "_" + precision + (recompute == "full" ? "_recomputed" : "");
        flags.insert(flags.end(), both.begin(), both.end());
        cases.push_back({name, flags});
      }
    }
  }
  return cases;
}

TEST_P(BenchMemory, IsThatOfTheLedgerAndNoPageIsTouchedAnew) {
  std::vector<std::string> words = {"bench", "train",     "--threads", "2",     "--steps",
                                    "4",     "--seconds", "0",         "--json"};
  words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
  const Finished bench = run_program(words);
  ASSERT_EQ(bench.exit_code, 0) << bench.out;
  const Json result = Json::parse(bench.out);
  expect_as_in_the_ledger(bench.resident_bytes_max, sum_of(result["memory_bytes"]));
  // A thread's stack may grow by a few pages; a buffer that is taken anew in each step would be
  // seen four times.
  EXPECT_LE(result["page_faults"].get<int64_t>(), 12);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BenchMemory, ::testing::ValuesIn(bench_cases()),
                         [](const auto& named) { return named.param.name; });

// Reads, trains its tokenizer, evaluates, saves and samples.
TEST_F(ResidentMemory, OfARunIsThatOfItsLedger) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "corpus");
  for (int document = 0; document < 30; ++document) {
    std::ofstream text(folder / "corpus" / (std::to_string(document) + ".txt"));
    for (int line = 0; line < 60; ++line) {
      text << "line " << line << " of document " << document << " is about nothing\n";
    }
  }
  std::ofstream(folder / "run.yaml")
      << "model: {model_type: llama, hidden_size: 320, intermediate_size: 1024,\n"
         "        num_hidden_layers: 8, num_attention_heads: 5, max_position_embeddings: 128}\n"
         "tokenizer: {train: {vocab_size: 300}}\n"
         "data: {sources: [{paths: [corpus]}], sequence_length: 128, validation_fraction: 0.1}\n"
         "checkpoint: {save_optimizer: false}\n"
         "sample: {tokens: 4}\n"
         "threads: 2\n"
         "training: {micro_batch_size: 2, steps: 3, eval_every: 2}\n";
  const Finished run = run_program({"train", (folder / "run.yaml").string(), "--set",
                                    "data.cache_directory=" + (folder / "cache").string(),
                                    "--output", (folder / "run").string()});
  ASSERT_EQ(run.exit_code, 0) << run.out;
  std::ifstream metrics(folder / "run" / "metrics.jsonl");
  std::string line, last;
  while (std::getline(metrics, line)) {
    last = line;
  }
  Json ledger = Json::parse(last)["memory"];
  ledger.erase("resident");
  expect_as_in_the_ledger(run.resident_bytes_max, sum_of(ledger));
}

}  // namespace
}  // namespace cadre
