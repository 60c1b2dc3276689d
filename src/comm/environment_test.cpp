#include "comm/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace cadre::comm {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Result<std::optional<RankEnvironment>> read(const Variables& variables) {
  return read_rank_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

void expect_rank(const Variables& variables, const Position& position, const std::string& host) {
  const Result<std::optional<RankEnvironment>> found = read(variables);
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->position.rank, position.rank);
  EXPECT_EQ((*found)->position.size, position.size);
  EXPECT_EQ((*found)->host, host);
  EXPECT_GT((*found)->port, 1023);
}

std::string refusal(const Variables& variables) {
  const Result<std::optional<RankEnvironment>> found = read(variables);
  if (found.ok()) {
    return "accepted";
  }
  EXPECT_EQ(found.error().kind, ErrorKind::kInput);
  return found.error().message;
}

TEST(Environment, IsOfOneProcessWhereNothingTellsOfRanks) {
  const Result<std::optional<RankEnvironment>> found = read({{"HOSTNAME", "laptop"}});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST(Environment, IsThatOfEveryLauncher) {
  expect_rank({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "4000"}},
              {.rank = 3, .size = 8}, "a");
  expect_rank({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "2"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
              {.rank = 1, .size = 2}, "127.0.0.1");
  expect_rank({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
               {"SLURM_JOB_NODELIST", "n[7-8]"}},
              {.rank = 1, .size = 4}, "n7");
  expect_rank({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "b"}}, {.rank = 0, .size = 2},
              "b");
  expect_rank({{"SLURM_PROCID", "5"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_STEP_NUM_TASKS", "6"},
               {"SLURM_NTASKS", "99"},
               {"SLURM_SUBMIT_HOST", "login"},
               {"SLURM_STEP_NODELIST", "gpu[03-05,9],x"}},
              {.rank = 5, .size = 6}, "gpu03");
  expect_rank({{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "4"}, {"HOSTNAME", "train-2"}},
              {.rank = 2, .size = 4}, "train-0");
  expect_rank({{"VC_TASK_INDEX", "0"},
               {"VC_MASTER_HOSTS", "j-master-0.j"},
               {"VC_WORKER_HOSTS", "j-worker-0.j,j-worker-1.j"},
               {"HOSTNAME", "j-worker-0"}},
              {.rank = 1, .size = 3}, "j-master-0.j");
}

TEST(Environment, TakesABatchScriptForOneProcess) {
  const Result<std::optional<RankEnvironment>> found =
      read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_NODELIST", "n1"}});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST(Environment, GivesTwoStepsOfSlurmPortsOfTheirOwn) {
  Variables variables = {{"SLURM_PROCID", "0"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_NODELIST", "n1"}};
  const int first = (*read(variables))->port;
  EXPECT_EQ((*read(variables))->port, first);
  variables["SLURM_STEP_ID"] = "1";
  EXPECT_NE((*read(variables))->port, first);
}

TEST(Environment, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal({{"RANK", "8"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}}),
            "RANK is 8 and WORLD_SIZE is 8; ranks count from 0 to one less than their number");
  EXPECT_EQ(refusal({{"RANK", "two"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}}),
            "RANK is \"two\"; wanted is a number from 0");
  EXPECT_EQ(refusal({{"RANK", "0"}, {"WORLD_SIZE", "8"}}),
            "torchrun's variables (RANK, WORLD_SIZE) does not tell where rank 0 is; set "
            "MASTER_ADDR");
  EXPECT_EQ(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
      "MASTER_PORT is 70000; wanted is a port from 1 to 65535");
  EXPECT_EQ(refusal({{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "j-1"}}),
            "the environment has no WORLD_SIZE, which whatever starts ranks in this way sets");
}

TEST(Environment, ReadsTheFirstHostOfANodeList) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n1,n2"), "n1");
  EXPECT_EQ(first_host("n[003-005,7],m"), "n003");
  EXPECT_EQ(first_host("n[4,7]"), "n4");
  EXPECT_EQ(first_host("rack[1-2]node[3-4],x"), "rack1node3");
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
}

}  // namespace
}  // namespace cadre::comm
