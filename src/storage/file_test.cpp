#include "storage/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "storage/checksum.h"
#include "storage/folder_lock.h"
#include "storage/mapped_file.h"
#include "storage/page_buffer.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

TEST(File, ReadsWholeAndInPart) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "0123456789"));
  EXPECT_EQ(*read_file(folder / "a"), "0123456789");
  const Result<ReadableFile> file = ReadableFile::open(folder / "a");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->bytes(), 10);
  std::array<std::byte, 3> part;
  ASSERT_TRUE(file->read_at(4, part));
  EXPECT_EQ(part[2], std::byte{'6'});
  const Result<MappedFile> mapped = MappedFile::open(folder / "a");
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->bytes().size(), 10u);
  EXPECT_EQ(mapped->bytes()[9], std::byte{'9'});
}

TEST(File, ReadsAndMapsAnEmptyFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "empty", ""));
  EXPECT_EQ(*read_file(folder / "empty"), "");
  EXPECT_EQ(MappedFile::open(folder / "empty")->bytes().size(), 0u);
}

TEST(File, NamesWhatIsMissingOrNoFile) {
  const TemporaryFolder folder;
  const Result<std::string> missing = read_file(folder / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kInput);
  EXPECT_EQ(missing.error().message, concat("cannot open \"", (folder / "nothing").string(),
                                            "\": No such file or directory"));
  EXPECT_NE(read_file(folder.path()).error().message.find("not a regular file"), std::string::npos);
  EXPECT_NE(MappedFile::open(folder.path()).error().message.find("not a regular file"),
            std::string::npos);
}

TEST(File, RefusesAFileOverTheLimit) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "0123456789"));
  EXPECT_TRUE(read_file(folder / "a", 10));
  EXPECT_NE(read_file(folder / "a", 9).error().message.find("has 10 bytes, at most 9"),
            std::string::npos);
}

TEST(File, NoticesThatAFileBecameShorter) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", "0123456789"));
  const Result<ReadableFile> file = ReadableFile::open(folder / "a");
  std::filesystem::resize_file(folder / "a", 6);
  std::array<std::byte, 4> part;
  EXPECT_NE(file->read_at(4, part).error().message.find("ends at byte 6, where it had 10"),
            std::string::npos);
}

TEST(File, ListsAFolderSortedAndAMissingOneAsEmpty) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "b", ""));
  ASSERT_TRUE(write_file(folder / "a", ""));
  EXPECT_EQ(*list_folder(folder.path()), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(list_folder(folder / "none")->empty());
}

TEST(File, ChecksThatAFolderIsWritableWithoutLeavingATrace) {
  const TemporaryFolder folder;
  EXPECT_TRUE(check_writable(folder.path()));
  EXPECT_TRUE(check_writable(folder / "not/yet/there"));
  EXPECT_TRUE(list_folder(folder.path())->empty());
  // /proc refuses everybody, root too.
  const Status refused = check_writable("/proc/self");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInput);
  EXPECT_NE(refused.error().message.find("cannot write into \"/proc/self\""), std::string::npos);
  ASSERT_TRUE(write_file(folder / "file", ""));
  EXPECT_FALSE(check_writable(folder / "file"));
}

TEST(ChecksumTest, EqualsXxHashsPublishedValuesWhateverThePieces) {
  // Of the empty input and of "abc", as `xxhsum -H3` prints them.
  EXPECT_EQ(checksum_text(checksum_of({})), "2d06800538d394c2");
  const std::string_view abc = "abc";
  EXPECT_EQ(checksum_text(checksum_of(std::as_bytes(std::span(abc)))), "78af5f94892f3950");
  std::string text(100000, 'x');
  text[70001] = 'y';
  Checksum pieces;
  for (size_t i = 0; i < text.size(); i += 777) {
    pieces.add(std::as_bytes(std::span(text).subspan(i, std::min<size_t>(777, text.size() - i))));
  }
  EXPECT_EQ(pieces.value(), checksum_of(std::as_bytes(std::span(text))));

  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a", text));
  const PageBuffer buffer(4096);
  EXPECT_EQ(*summarize_file(folder / "a", buffer.bytes()),
            (FileSummary{.bytes = 100000, .checksum = pieces.value()}));
}

TEST(ChecksumTest, ReadsOnlyItsOwnNotation) {
  EXPECT_EQ(parse_checksum("00ff00000000000a"), 0x00ff00000000000aull);
  EXPECT_EQ(parse_checksum("00FF00000000000A"), std::nullopt);
  EXPECT_EQ(parse_checksum("ff"), std::nullopt);
  EXPECT_EQ(parse_checksum("-0ff00000000000a"), std::nullopt);
  EXPECT_EQ(parse_checksum("00ff00000000000g"), std::nullopt);
}

std::string host_name() {
  std::array<char, 65> host = {};
  CADRE_CHECK(gethostname(host.data(), host.size() - 1) == 0);
  return host.data();
}

TEST(FolderLockTest, RefusesASecondOwnerByTheFirstsProcessId) {
  const TemporaryFolder folder;
  {
    const Result<FolderLock> first = FolderLock::acquire(folder.path());
    ASSERT_TRUE(first);
    const Result<FolderLock> second = FolderLock::acquire(folder.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::kInput);
    EXPECT_NE(second.error().message.find(concat("in use by process ", getpid(), " on ")),
              std::string::npos)
        << second.error().message;
  }
  EXPECT_TRUE(FolderLock::acquire(folder.path()));
}

TEST(FolderLockTest, IsTakenQuietlyWithoutAnyChange) {
  const TemporaryFolder folder;
  const auto none = FolderLock::acquire_quietly(folder.path());
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  EXPECT_TRUE(list_folder(folder.path())->empty());
  ASSERT_TRUE(FolderLock::acquire(folder.path()));
  {
    // A process that has ended: Linux numbers them up to 2^22.
    std::ofstream(folder / ".lock") << "process 5000000 on " << host_name() << "\n";
    const std::string before = *read_file(folder / ".lock");
    auto lock = FolderLock::acquire_quietly(folder.path());
    ASSERT_TRUE(lock && lock->has_value());
    EXPECT_EQ(*read_file(folder / ".lock"), before);
    // Whom the file names is not who holds it.
    const Result<FolderLock> second = FolderLock::acquire(folder.path());
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("in use by another process"), std::string::npos);
    ASSERT_TRUE((*lock)->announce());
    EXPECT_EQ(*read_file(folder / ".lock"),
              concat("process ", getpid(), " on ", host_name(), "\n"));
  }
  EXPECT_TRUE(FolderLock::acquire(folder.path()));
}

TEST(FolderLockTest, IsGivenUpWhenItsOwnerIsKilled) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<FolderLock> lock = FolderLock::acquire(folder.path());
    const char byte = lock ? 'y' : 'n';
    if (write(ready[1], &byte, 1) == 1) {
      pause();
    }
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const Result<FolderLock> refused = FolderLock::acquire(folder.path());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(concat("process ", child)), std::string::npos);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderLock::acquire(folder.path()));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace cadre
