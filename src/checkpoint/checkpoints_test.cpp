#include "checkpoint/checkpoints.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/small_checkpoint_test.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class CheckpointsTest : public ::testing::Test {
 protected:
  std::filesystem::path save(int64_t step) {
    const Result<SavedCheckpoint> saved =
        save_checkpoint(checkpoints, step, SmallModel(concat(step)).contents());
    EXPECT_TRUE(saved) << saved.error().message;
    return saved->path;
  }

  // The step that would be resumed from, or -1; notes are kept.
  int64_t newest(Scrutiny scrutiny = Scrutiny::kChecksums) {
    notes.clear();
    const Result<std::optional<CheckpointInfo>> found = newest_complete(
        checkpoints, [this](const std::string& note) { notes.push_back(note); }, scrutiny);
    EXPECT_TRUE(found) << found.error().message;
    return *found ? (**found).step : -1;
  }

  std::vector<std::string> names() { return *list_folder(checkpoints); }

  Status purge(int64_t keep, int64_t current_step) {
    notes.clear();
    return purge_checkpoints(checkpoints, keep, current_step,
                             [this](const std::string& note) { notes.push_back(note); });
  }

  TemporaryFolder folder;
  std::filesystem::path checkpoints = folder / "checkpoints";
  std::vector<std::string> notes;
};

TEST_F(CheckpointsTest, SavesEveryFileOfACheckpoint) {
  const std::filesystem::path path = save(500);
  EXPECT_EQ(path, checkpoints / "step-00000500");
  EXPECT_EQ(*list_folder(path),
            (std::vector<std::string>{"config.json", "manifest.json", "model.safetensors",
                                      "optimizer-00001-of-00001.safetensors", "tokenizer.json",
                                      "trainer_state.json"}));
  EXPECT_EQ((*read_trainer_state(path))["loss"], 2.25);
  const Result<CheckpointInfo> info = verify_checkpoint(path / "", Scrutiny::kChecksums);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->step, 500);
  int64_t bytes = 0;
  const std::vector<std::string> files = *list_folder(path);
  for (const std::string& name : files) {
    bytes +=
        name == kManifestName ? 0 : static_cast<int64_t>(std::filesystem::file_size(path / name));
  }
  EXPECT_EQ(info->bytes, bytes);
}

TEST_F(CheckpointsTest, ResumesWithTheBitsOfMastersAndMoments) {
  const std::filesystem::path path = save(500);
  const SmallModel small("500");
  const Result<CheckpointReader> reader = CheckpointReader::open_optimizer(path);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<HeldTensor> loaded;
  std::vector<WantedTensor> wanted;
  for (const auto& [name, tensor] : small.optimizer) {
    loaded.emplace_back(DType::kF32, tensor.view().shape);
    wanted.push_back(wanted_whole(name, loaded.back().view()));
  }
  ASSERT_TRUE(reader->load(wanted));
  for (size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(loaded[i].bytes(), small.optimizer[i].second.bytes());
  }
}

TEST_F(CheckpointsTest, ChoosesTheNewestThatIsWhole) {
  EXPECT_EQ(newest(), -1);
  save(90);
  save(100);
  const std::filesystem::path newest_path =
      save(1'000'000'000);  // more digits than the name is padded to
  EXPECT_EQ(newest(), 1'000'000'000);
  EXPECT_TRUE(notes.empty());
  std::filesystem::remove(newest_path / "manifest.json");
  EXPECT_EQ(newest(), 100);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(contains(notes[0], "passed over \"" + newest_path.string() + "\": cannot open"))
      << notes[0];
}

TEST_F(CheckpointsTest, PassesOverATruncatedFileByItsSizeAlone) {
  save(1);
  const std::filesystem::path path = save(2);
  std::filesystem::resize_file(path / "model.safetensors", 100);
  EXPECT_EQ(newest(Scrutiny::kSizes), 1);
  EXPECT_TRUE(contains(notes.at(0), "\"model.safetensors\" has 100 bytes, manifest.json says"))
      << notes[0];
}

TEST_F(CheckpointsTest, PassesOverAManifestOfAnotherStep) {
  save(1);
  save(2);
  std::filesystem::rename(checkpoints / "step-00000002", checkpoints / "step-00000003");
  EXPECT_EQ(newest(), 1);
  EXPECT_TRUE(contains(notes.at(0), "manifest.json is of step 2"));
}

TEST_F(CheckpointsTest, ListsWhatIsThereAndIgnoresWhatIsNotACheckpoint) {
  save(2);
  ASSERT_TRUE(make_folder(checkpoints / "step-00000001"));
  ASSERT_TRUE(make_folder(checkpoints / ".tmp-step-00000003"));
  for (const char* other : {"best", "step-1", "step-00000001-old", "step-0000000x", "step-"}) {
    ASSERT_TRUE(make_folder(checkpoints / other));
  }
  const Result<std::vector<CheckpointInfo>> all = list_checkpoints(checkpoints, Scrutiny::kSizes);
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].step, 1);
  EXPECT_FALSE((*all)[0].complete());
  EXPECT_TRUE((*all)[1].complete());
  EXPECT_TRUE(contains((*all)[2].problem, "unfinished"));
  EXPECT_EQ(newest(), 2);
  EXPECT_TRUE(contains(notes.at(0), ".tmp-step-00000003"));
}

TEST_F(CheckpointsTest, PurgesOldCompleteOnesAndOnlyThose) {
  for (const int64_t step : {10, 20, 30, 40}) {
    save(step);
  }
  std::filesystem::remove(checkpoints / "step-00000030/config.json");
  ASSERT_TRUE(purge(2, 40));
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000020", "step-00000030", "step-00000040"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(
      contains(notes[0], "left \"" + (checkpoints / "step-00000030").string() + "\" alone"));
  ASSERT_TRUE(purge(0, 40)) << "0 keeps all";
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(CheckpointsTest, PurgesNothingOfALaterStep) {
  for (const int64_t step : {10, 20, 30, 40}) {
    save(step);
  }
  ASSERT_TRUE(purge(1, 20));  // a run that went back to step 10 and has saved step 20
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000020", "step-00000030", "step-00000040"}));
}

TEST_F(CheckpointsTest, PurgesWhatAKilledPurgeOrSaveLeft) {
  save(10);
  save(20);
  std::filesystem::rename(checkpoints / "step-00000010",
                          checkpoints / ".tmp-removed-step-00000010");
  std::filesystem::remove(checkpoints / ".tmp-removed-step-00000010/config.json");
  ASSERT_TRUE(make_folder(checkpoints / ".tmp-step-00000015"));
  ASSERT_TRUE(make_folder(checkpoints / ".tmp-replaced-step-00000020"));
  ASSERT_TRUE(make_folder(checkpoints / ".tmp-replaced-step-00000030"));  // perhaps the only copy
  ASSERT_TRUE(purge(2, 20));
  EXPECT_EQ(names(), (std::vector<std::string>{".tmp-replaced-step-00000030", "step-00000020"}));
}

TEST_F(CheckpointsTest, KeepsTheRunsOfTwoFoldersApart) {
  save(10);
  const std::filesystem::path other = folder / "other";
  ASSERT_TRUE(save_checkpoint(other, 20, SmallModel("other").contents()));
  ASSERT_TRUE(purge(1, 10));
  EXPECT_EQ(*list_folder(other), std::vector<std::string>{"step-00000020"});
  EXPECT_EQ(newest(), 10);
}

TEST_F(CheckpointsTest, SavesTheSameBytesForTheSameState) {
  const std::filesystem::path first = save(10);
  std::filesystem::rename(first, folder / "first");
  const std::filesystem::path second = save(10);
  const std::vector<std::string> files = *list_folder(second);
  for (const std::string& name : files) {
    EXPECT_EQ(*read_file(folder / "first" / name), *read_file(second / name)) << name;
  }
}

// The bytes of docs/checkpoint-format.md's example.
TEST_F(CheckpointsTest, WritesTheExampleOfItsDocument) {
  const HeldTensor w = counting({2, 2});
  CheckpointContents contents{.model = {whole_tensor("w", DType::kBf16, w.view())},
                              .optimizer = {whole_tensor("master/w", DType::kF32, w.view())},
                              .config = {{"model_type", "llama"}},
                              .trainer_state = {{"step", 7}}};
  const std::filesystem::path path = save_checkpoint(checkpoints, 7, contents)->path;
  EXPECT_EQ(*read_file(path / "model.safetensors"),
            std::string("\x78\0\0\0\0\0\0\0", 8) +
                R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],)" +
                R"("data_offsets":[0,8]}})" + std::string(32, ' ') +
                std::string("\0\x3F\xC0\x3F\x20\x40\x60\x40", 8));
  // Its checksums are those that `xxhsum -H3` prints.
  EXPECT_EQ(*read_file(path / "manifest.json"), R"({
  "format": "cadre checkpoint",
  "format_version": 1,
  "manifest_xxh3_64": "07b7ddd375622788",
  "step": 7,
  "files": [
    {"name": "config.json", "bytes": 28, "xxh3_64": "7957f53ed27c0ed0"},
    {"name": "model.safetensors", "bytes": 136, "xxh3_64": "df2da441adfb2728"},
    {"name": "optimizer-00001-of-00001.safetensors", "bytes": 144, "xxh3_64": "6a8bd9e1c20dae80"},
    {"name": "trainer_state.json", "bytes": 16, "xxh3_64": "db1fed44aae8b11b"}
  ],
  "model": [
    {"name": "w", "dtype": "BF16", "shape": [2, 2], "pieces": [{"file": "model.safetensors"}]}
  ],
  "optimizer": [
    {"name": "master/w", "dtype": "F32", "shape": [2, 2], "pieces": [{"file": "optimizer-00001-of-00001.safetensors"}]}
  ]
}
)");
}

}  // namespace
}  // namespace cadre
