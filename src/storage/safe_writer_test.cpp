#include "storage/safe_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "testing/full_disk.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::FullDisk;
using testing::TemporaryFolder;

TEST(SafeWriterTest, WritesAcrossItsBufferAndSumsUp) {
  const TemporaryFolder folder;
  const PageBuffer buffer(4096);
  Result<SafeWriter> writer = SafeWriter::create(folder / "a", buffer.bytes());
  ASSERT_TRUE(writer);
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = concat(i, ",");
    expected += text;
    ASSERT_TRUE(writer->append(text));
  }
  Result<std::span<std::byte>> room = writer->room();
  ASSERT_TRUE(room);
  (*room)[0] = std::byte{'!'};
  writer->advance(1);
  expected += '!';
  EXPECT_EQ(writer->bytes(), std::ssize(expected));
  const Result<FileSummary> summary = writer->publish();
  ASSERT_TRUE(summary);
  EXPECT_EQ(*summary, (FileSummary{.bytes = std::ssize(expected),
                                   .checksum = checksum_of(std::as_bytes(std::span(expected)))}));
  EXPECT_EQ(*read_file(folder / "a"), expected);
}

TEST(SafeWriterTest, KeepsTheOldFileUntilItPublishes) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "old"));
  {
    Result<SafeWriter> abandoned = SafeWriter::create(folder / "a");
    ASSERT_TRUE(abandoned->append(std::string_view("new")));
    EXPECT_EQ(*read_file(folder / "a"), "old");
  }
  EXPECT_EQ(*list_folder(folder.path()), std::vector<std::string>{"a"});
  ASSERT_TRUE(write_file(folder / "a", "new"));
  EXPECT_EQ(*read_file(folder / "a"), "new");
}

TEST(SafeWriterTest, ReportsAFullDiskAndLeavesWhatWasThere) {
  const FullDisk disk(1 << 20);
  ASSERT_TRUE(write_file(disk.path() / "a", "old"));
  {
    Result<SafeWriter> writer = SafeWriter::create(disk.path() / "a");
    ASSERT_TRUE(writer);
    const std::string block(100000, 'x');
    Status status;
    for (int i = 0; i < 100 && status; ++i) {
      status = writer->append(block);
    }
    const Result<FileSummary> summary = writer->publish();
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.error().kind, ErrorKind::kFailure);
    EXPECT_NE(summary.error().message.find("cannot write \""), std::string::npos);
    EXPECT_FALSE(writer->append(block)) << "an error stays";
  }
  EXPECT_EQ(*list_folder(disk.path()), std::vector<std::string>{"a"});
  EXPECT_EQ(*read_file(disk.path() / "a"), "old");
}

TEST(SafeWriterTest, SaysWhereItCannotCreateAFile) {
  const TemporaryFolder folder;
  const Status status = write_file(folder / "none/a", "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kFailure);
  EXPECT_NE(status.error().message.find("No such file or directory"), std::string::npos);
}

}  // namespace
}  // namespace cadre
