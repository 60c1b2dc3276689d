// Faults that users of training engines met (docs/field-cases.md), as far as they concern files.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "checkpoint/checkpoints.h"
#include "checkpoint/reader.h"
#include "checkpoint/small_checkpoint_test.h"
#include "storage/safe_writer.h"
#include "testing/full_disk.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::FullDisk;
using testing::TemporaryFolder;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void ignore(const std::string&) {}

int64_t newest_step(const std::filesystem::path& checkpoints, const NoteCallback& note = ignore) {
  const Result<std::optional<CheckpointInfo>> found = newest_complete(checkpoints, note);
  EXPECT_TRUE(found) << found.error().message;
  return *found ? (**found).step : -1;
}

// Calls `body` in a process of its own and returns it.
template <typename Body>
pid_t in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

bool was_killed(pid_t child, int signal) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

// The step-2 save after the kill must work, and leave nothing of the first attempt.
void expect_step_1_then_save_step_2(const std::filesystem::path& checkpoints) {
  EXPECT_EQ(newest_step(checkpoints), 1);
  const Result<SavedCheckpoint> saved = save_checkpoint(checkpoints, 2, SmallModel("2").contents());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(newest_step(checkpoints), 2);
  EXPECT_EQ(*list_folder(checkpoints),
            (std::vector<std::string>{"step-00000001", "step-00000002"}));
}

TEST(FieldCases, C1_ASaveKilledInTheMiddleOfAFileIsPassedOver) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), 1, SmallModel("1").contents()));
  // The system kills the writer at the byte where a file reaches the limit: in the configuration,
  // in the weights, in the optimizer's state.
  const SmallModel small("2");
  for (const rlim_t limit : {0u, 10u, 3000u, 9000u, 20000u}) {
    const pid_t child = in_child([&] {
      const rlimit size = {.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &size);
      const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
      setrlimit(RLIMIT_CORE, &no_core);
      static_cast<void>(save_checkpoint(folder.path(), 2, small.contents()));
    });
    ASSERT_TRUE(was_killed(child, SIGXFSZ)) << limit;
    EXPECT_TRUE(std::filesystem::exists(folder / ".tmp-step-00000002"));
    std::vector<std::string> notes;
    EXPECT_EQ(newest_step(folder.path(), [&](const std::string& note) { notes.push_back(note); }),
              1);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_TRUE(contains(notes[0], "is unfinished"));
  }
  expect_step_1_then_save_step_2(folder.path());
}

TEST(FieldCases, C1_ASaveKilledBetweenFilesIsPassedOver) {
  for (const char* file :
       {"config.json", "tokenizer.json", "model-00002-of-00003.safetensors",
        "optimizer-00001-of-00009.safetensors", "trainer_state.json", "manifest.json"}) {
    const TemporaryFolder folder;
    ASSERT_TRUE(save_checkpoint(folder.path(), 1, SmallModel("1").contents()));
    const SmallModel small("2");
    const pid_t child = in_child([&] {
      static_cast<void>(
          save_checkpoint(folder.path(), 2, small.contents(), {.shard_bytes_max = 1}));
    });
    // Killed as soon as the file is seen; or it was faster and its checkpoint is whole.
    std::error_code ignored;
    while (!std::filesystem::exists(folder / ".tmp-step-00000002" / file, ignored) &&
           !std::filesystem::exists(folder / "step-00000002", ignored)) {
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (std::filesystem::exists(folder / "step-00000002")) {
      EXPECT_EQ(newest_step(folder.path()), 2) << file;
    } else {
      expect_step_1_then_save_step_2(folder.path());
    }
  }
}

TEST(FieldCases, C2_AMissingFolderIsAnEmptyOne) {
  const TemporaryFolder folder;
  EXPECT_EQ(newest_step(folder / "not/yet"), -1);
  EXPECT_TRUE(list_checkpoints(folder / "not/yet", Scrutiny::kChecksums)->empty());
  EXPECT_TRUE(purge_checkpoints(folder / "not/yet", 2, 100, ignore));
  EXPECT_FALSE(std::filesystem::exists(folder / "not"));
}

TEST(FieldCases, C3_PurgingLeavesTheSaveInTheMakingAlone) {
  const TemporaryFolder folder;
  for (const int64_t step : {1, 2}) {
    ASSERT_TRUE(save_checkpoint(folder.path(), step, SmallModel().contents()));
  }
  ASSERT_TRUE(make_folder(folder / ".tmp-step-00000003"));
  ASSERT_TRUE(write_file(folder / ".tmp-step-00000003/config.json", "{}"));
  ASSERT_TRUE(make_folder(folder / ".tmp-step-00000004"));  // asynchronous: the next one too
  ASSERT_TRUE(purge_checkpoints(folder.path(), 1, 3, ignore));
  EXPECT_EQ(
      *list_folder(folder.path()),
      (std::vector<std::string>{".tmp-step-00000003", ".tmp-step-00000004", "step-00000002"}));
  EXPECT_TRUE(std::filesystem::exists(folder / ".tmp-step-00000003/config.json"));
}

TEST(FieldCases, C5_SavingWorksAgainAndAgain) {
  const TemporaryFolder folder;
  const SmallModel small;
  const CheckpointContents contents = small.contents();
  for (int64_t step = 1; step <= 20; ++step) {
    ASSERT_TRUE(save_checkpoint(folder.path(), step, contents));
    ASSERT_TRUE(purge_checkpoints(folder.path(), 2, step, ignore));
    EXPECT_EQ(newest_step(folder.path()), step);
  }
  EXPECT_EQ(list_folder(folder.path())->size(), 2u);
}

TEST(FieldCases, C6_OneChangedByteOfAWeightIsFound) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), 1, SmallModel("1").contents()));
  const std::filesystem::path path =
      save_checkpoint(folder.path(), 2, SmallModel("2").contents())->path;
  for (const char* name :
       {"model.safetensors", "optimizer-00001-of-00001.safetensors", "config.json"}) {
    const std::string good = *read_file(path / name);
    std::string bad = good;
    bad[good.size() - 3] = static_cast<char>(bad[good.size() - 3] ^ 0x40);
    ASSERT_TRUE(write_file(path / name, bad));
    const Result<CheckpointInfo> info = verify_checkpoint(path, Scrutiny::kChecksums);
    ASSERT_FALSE(info) << name;
    EXPECT_TRUE(
        contains(info.error().message, concat("\"", name, "\" is corrupt: its checksum is")))
        << info.error().message;
    EXPECT_EQ(newest_step(folder.path()), 1);
    ASSERT_TRUE(write_file(path / name, good));
  }
  EXPECT_EQ(newest_step(folder.path()), 2);
}

TEST(FieldCases, C15_SavingAStepAgainReplacesItInOneInstant) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), 5, SmallModel("old").contents()));
  // While the second save runs, the first is whole at every moment.
  const SmallModel small("new");
  const pid_t child = in_child([&] {
    for (int round = 0; round < 20; ++round) {
      if (!save_checkpoint(folder.path(), 5, small.contents())) {
        _exit(1);
      }
    }
  });
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    ASSERT_TRUE(std::filesystem::exists(folder / "step-00000005"));
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*list_folder(folder.path()), std::vector<std::string>{"step-00000005"});
  EXPECT_EQ(newest_step(folder.path()), 5);
}

TEST(FieldCases, G3_ATiedHeadIsNeitherInTheFileNorInTheIndex) {
  const TemporaryFolder folder;
  const SmallModel small;
  for (const int64_t shard_bytes : {int64_t{1} << 30, int64_t{1}}) {
    const std::filesystem::path path = folder / concat("m", shard_bytes);
    ASSERT_TRUE(save_model_folder(path, small.contents(), {.shard_bytes_max = shard_bytes}));
    const Result<CheckpointReader> reader = CheckpointReader::open_model(path);
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_EQ(reader->find("lm_head.weight"), nullptr);
    EXPECT_EQ(reader->tensors().size(), 3u);
    const std::vector<std::string> files = *list_folder(path);
    for (const std::string& name : files) {
      EXPECT_FALSE(contains(*read_file(path / name), "lm_head")) << name;
    }
  }
}

TEST(FieldCases, G5_ATiedTensorIsSavedOnceUnderOneName) {
  const TemporaryFolder folder;
  const SmallModel small;
  CheckpointContents contents = small.contents();
  SavedTensor head = contents.model[0];
  head.name = "lm_head.weight";
  contents.model.push_back(head);
  EXPECT_DEATH(static_cast<void>(save_checkpoint(folder.path(), 1, contents)),
               "tied tensors are saved once");
}

TEST(FullDiskWhileSaving, LeavesTheLastCompleteCheckpointAndSaysSo) {
  const FullDisk disk(1 << 20);
  const std::filesystem::path checkpoints = disk.path() / "checkpoints";
  const SmallModel large("large", 20000);
  const Result<SavedCheckpoint> none = save_checkpoint(checkpoints, 1, large.contents());
  ASSERT_FALSE(none);
  EXPECT_TRUE(contains(none.error().message, "there is no complete checkpoint before it"));
  ASSERT_TRUE(save_checkpoint(checkpoints, 1, SmallModel("1").contents()));
  const Result<SavedCheckpoint> saved = save_checkpoint(checkpoints, 2, large.contents());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::kFailure);
  EXPECT_TRUE(contains(saved.error().message, "cannot save the checkpoint of step 2: cannot write"))
      << saved.error().message;
  EXPECT_TRUE(contains(saved.error().message,
                       concat("the last complete checkpoint, \"",
                              (checkpoints / "step-00000001").string(), "\", stays")));
  EXPECT_EQ(*list_folder(checkpoints), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(newest_step(checkpoints), 1);
}

TEST(SavingWhereNothingCanBeWritten, IsAFailureThatNamesThePlace) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "file", ""));
  for (const std::filesystem::path& place :
       {folder / "file/checkpoints", std::filesystem::path("/proc/self/checkpoints")}) {
    const Result<SavedCheckpoint> saved = save_checkpoint(place, 2, SmallModel().contents());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().kind, ErrorKind::kFailure);
    EXPECT_TRUE(contains(saved.error().message, "cannot make the folder")) << saved.error().message;
  }
}

TEST(SavingAFileThatIsGone, FailsAndPublishesNothing) {
  const TemporaryFolder folder;
  CheckpointContents contents = SmallModel().contents();
  const SmallModel small;
  contents = small.contents();
  contents.files.push_back({.name = "merges.txt", .from = folder / "none"});
  EXPECT_FALSE(save_checkpoint(folder / "c", 2, contents));
  EXPECT_TRUE(list_folder(folder / "c")->empty());
  ASSERT_TRUE(write_file(folder / "none", "a b\n"));
  const Result<SavedCheckpoint> saved = save_checkpoint(folder / "c", 2, contents);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*read_file(saved->path / "merges.txt"), "a b\n");
}

}  // namespace
}  // namespace cadre
