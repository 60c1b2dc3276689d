#include "storage/byte_stream.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <random>
#include <string>

#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

std::string gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

// Half a megabyte that compresses well in some places and hardly in others.
std::string some_text() {
  std::mt19937 random(7);
  std::string text;
  while (text.size() < 600000) {
    text += concat("line ", random(), '\n');
    if (random() % 16 == 0) {
      text += std::string(random() % 5000, 'a');
    }
  }
  return text;
}

Result<std::string> read_all(const std::filesystem::path& path, size_t buffer_bytes) {
  Result<std::unique_ptr<ByteStream>> stream = open_byte_stream(path);
  if (!stream) {
    return stream.error();
  }
  std::string text, buffer(buffer_bytes, '\0');
  for (;;) {
    const Result<size_t> count = (*stream)->read(buffer);
    if (!count) {
      return count.error();
    }
    if (*count == 0) {
      return text;
    }
    text.append(buffer, 0, *count);
  }
}

TEST(ByteStreamTest, LooksThroughGzipAndZstdWithAnyBuffer) {
  const TemporaryFolder folder;
  const std::string text = some_text();
  ASSERT_TRUE(write_file(folder / "a.txt", text));
  ASSERT_TRUE(write_file(folder / "a.txt.gz", gzip(text)));
  ASSERT_TRUE(write_file(folder / "a.txt.zst", zstd(text)));
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.zst"}) {
    for (const size_t bytes : {size_t{997}, size_t{65536}, size_t{2} << 20}) {
      const Result<std::string> read = read_all(folder / name, bytes);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_TRUE(*read == text) << name << " by " << bytes;
    }
  }
}

TEST(ByteStreamTest, ReadsMembersAndFramesOneAfterTheOther) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a.gz", gzip("one\n") + gzip("") + gzip("two\n")));
  ASSERT_TRUE(write_file(folder / "a.zst", zstd("one\n") + zstd("") + zstd("two\n")));
  EXPECT_EQ(*read_all(folder / "a.gz", 100), "one\ntwo\n");
  EXPECT_EQ(*read_all(folder / "a.zst", 2), "one\ntwo\n");
}

TEST(ByteStreamTest, RefusesWhatIsCutOff) {
  const TemporaryFolder folder;
  const std::string text = some_text();
  for (const bool gz : {true, false}) {
    const std::string packed = gz ? gzip(text) : zstd(text);
    const std::filesystem::path path = folder / (gz ? "a.gz" : "a.zst");
    for (const size_t bytes : {size_t{0}, size_t{3}, packed.size() / 2, packed.size() - 1}) {
      ASSERT_TRUE(write_file(path, packed.substr(0, bytes)));
      const Result<std::string> read = read_all(path, 65536);
      ASSERT_FALSE(read) << bytes;
      EXPECT_EQ(read.error().kind, ErrorKind::kInput);
      EXPECT_NE(read.error().message.find(concat("cut off in the middle of its compressed data; "
                                                 "it ends at byte ",
                                                 bytes)),
                std::string::npos)
          << read.error().message;
    }
  }
}

TEST(ByteStreamTest, RefusesWhatIsCorruptOrNotCompressed) {
  const TemporaryFolder folder;
  const std::string text = some_text();
  std::string packed = gzip(text);
  packed[packed.size() - 6] ^= 1;  // of the CRC
  ASSERT_TRUE(write_file(folder / "crc.gz", packed));
  EXPECT_NE(read_all(folder / "crc.gz", 65536).error().message.find("incorrect data check"),
            std::string::npos);
  ASSERT_TRUE(write_file(folder / "plain.gz", "just text"));
  EXPECT_NE(read_all(folder / "plain.gz", 100).error().message.find("as gzip: incorrect header"),
            std::string::npos);
  ASSERT_TRUE(write_file(folder / "plain.zst", "just text"));
  EXPECT_NE(read_all(folder / "plain.zst", 100).error().message.find("as zstd: Unknown frame"),
            std::string::npos);
  ASSERT_TRUE(write_file(folder / "after.gz", gzip("text") + "garbage"));
  EXPECT_FALSE(read_all(folder / "after.gz", 100));
}

TEST(ByteStreamTest, NamesMissingFilesAndFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_all(folder / "none.gz", 10).error().kind, ErrorKind::kInput);
  EXPECT_NE(read_all(folder.path(), 10).error().message.find("Is a directory"), std::string::npos);
}

TEST(ByteStreamTest, KnowsTheNameUnderTheCompression) {
  EXPECT_EQ(without_compression("x/a.jsonl.zst"), "x/a.jsonl");
  EXPECT_EQ(without_compression("a.txt"), "a.txt");
}

std::vector<std::string> lines_of(const std::string& text,
                                  const LineReader::Options& options = {}) {
  const TemporaryFolder folder;
  EXPECT_TRUE(write_file(folder / "a", text));
  LineReader reader(*open_byte_stream(folder / "a"), "a", options);
  std::vector<std::string> lines;
  for (;;) {
    const Result<std::optional<std::string_view>> line = reader.next();
    if (!line) {
      lines.push_back("error: " + line.error().message);
      return lines;
    }
    if (!*line) {
      return lines;
    }
    lines.emplace_back(**line);
    EXPECT_EQ(reader.line_number(), std::ssize(lines));
  }
}

TEST(LineReaderTest, CutsAtNewlinesWithOrWithoutOneAtTheEnd) {
  EXPECT_EQ(lines_of(""), (std::vector<std::string>{}));
  EXPECT_EQ(lines_of("a\n\nb"), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\n"), (std::vector<std::string>{"a\r", "b"}));
}

TEST(LineReaderTest, ReadsLinesLongerThanItsBuffer) {
  const std::string text = std::string(700000, 'x') + "\n" + std::string(300000, 'y') + "\nz";
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], std::string(700000, 'x'));
  EXPECT_EQ(lines[1], std::string(300000, 'y'));
  EXPECT_EQ(lines[2], "z");
}

TEST(LineReaderTest, RefusesALineOverTheLimitByItsNumber) {
  const std::vector<std::string> lines =
      lines_of("short\n" + std::string(2000000, 'x'), {.line_bytes_max = 1000000});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], "error: a:2: a line of more than 1000000 bytes; is this text?");
}

}  // namespace
}  // namespace cadre
