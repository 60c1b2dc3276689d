#include "storage/publish.h"

#include <gtest/gtest.h>

#include "storage/file.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

TEST(FolderPublisherTest, ShowsNothingBeforeItPublishes) {
  const TemporaryFolder folder;
  Result<FolderPublisher> publisher = FolderPublisher::begin(folder / "all/step-1");
  ASSERT_TRUE(publisher);
  EXPECT_EQ(publisher->folder().filename(), ".tmp-step-1");
  ASSERT_TRUE(write_file(publisher->folder() / "a", "x"));
  EXPECT_EQ(*list_folder(folder / "all"), std::vector<std::string>{".tmp-step-1"});
  ASSERT_TRUE(publisher->publish());
  EXPECT_EQ(*list_folder(folder / "all"), std::vector<std::string>{"step-1"});
  EXPECT_EQ(*read_file(folder / "all/step-1/a"), "x");
}

TEST(FolderPublisherTest, RemovesWhatItDidNotPublishAndWhatOthersLeft) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / ".tmp-step-1"));
  ASSERT_TRUE(write_file(folder / ".tmp-step-1/left", "x"));
  {
    const Result<FolderPublisher> publisher = FolderPublisher::begin(folder / "step-1");
    ASSERT_TRUE(publisher);
    EXPECT_TRUE(list_folder(publisher->folder())->empty());
  }
  EXPECT_TRUE(list_folder(folder.path())->empty());
}

TEST(FolderPublisherTest, TakesThePlaceOfAnOldFolder) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / "step-1"));
  ASSERT_TRUE(write_file(folder / "step-1/old", "x"));
  Result<FolderPublisher> publisher = FolderPublisher::begin(folder / "step-1");
  ASSERT_TRUE(write_file(publisher->folder() / "new", "x"));
  ASSERT_TRUE(publisher->publish());
  EXPECT_EQ(*list_folder(folder.path()), std::vector<std::string>{"step-1"});
  EXPECT_EQ(*list_folder(folder / "step-1"), std::vector<std::string>{"new"});
}

TEST(FolderPublisherTest, FailsWhereNoFolderCanBe) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "file", "x"));
  const Result<FolderPublisher> publisher = FolderPublisher::begin(folder / "file/step-1");
  ASSERT_FALSE(publisher);
  EXPECT_EQ(publisher.error().kind, ErrorKind::kFailure);
}

TEST(RemoveFolder, RemovesAndSaysWhatIsNotThere) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / "step-1"));
  ASSERT_TRUE(write_file(folder / "step-1/a", "x"));
  ASSERT_TRUE(remove_folder(folder / "step-1"));
  EXPECT_TRUE(list_folder(folder.path())->empty());
  EXPECT_FALSE(remove_folder(folder / "step-1"));
}

}  // namespace
}  // namespace cadre
