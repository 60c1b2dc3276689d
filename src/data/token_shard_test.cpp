#include "data/token_shard.h"

#include <gtest/gtest.h>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::all_documents;
using testing::make_shards;
using testing::message_of;
using testing::put;
using testing::TemporaryFolder;

const std::vector<std::vector<int32_t>> kDocuments = {{5, 6, 7}, {65535}, {8, 9}, {1, 2, 3, 4}};

TEST(TokenShardTest, GivesBackWhatWasWrittenInBothWidths) {
  const TemporaryFolder folder;
  for (const int64_t width : {2, 4}) {
    auto documents = kDocuments;
    if (width == 4) {
      documents[1] = {70000, 2147483647};
    }
    const auto shards = make_shards(folder / std::to_string(width), documents, width, 4);
    ASSERT_EQ(shards.size(), 2u);  // 3 + 1 tokens reach 4; 2 + 4 follow
    EXPECT_EQ(all_documents(shards), documents);
    EXPECT_EQ(shards[0].largest_id(), width == 2 ? 65535 : 2147483647);
    EXPECT_EQ(shards[1].largest_id(), 9);
    EXPECT_EQ(shards[1].documents()[1].text_bytes, 12u);
  }
}

TEST(TokenShardTest, ReadsFromTheMiddle) {
  const TemporaryFolder folder;
  const auto shards = make_shards(folder / "x", kDocuments, 2, 1000);
  std::vector<int32_t> part(4);
  shards[0].read(part, 2);
  EXPECT_EQ(part, (std::vector<int32_t>{7, 65535, 8, 9}));
  shards[0].release_pages();
  shards[0].read(part, 2);
  EXPECT_EQ(part, (std::vector<int32_t>{7, 65535, 8, 9}));
}

TEST(TokenShardTest, BeginsAnotherShardAfterSoManyDocuments) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path(), {.shard_documents = 2});
  for (int32_t id = 0; id < 5; ++id) {
    ASSERT_TRUE(writer.append(std::vector<int32_t>{id}));
    ASSERT_TRUE(writer.end_document(1));
  }
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(writer.shards(), 3);
  EXPECT_EQ(writer.documents(), 5);
}

TEST(TokenShardTest, LeavesNoTraceOfADocumentWithoutTokens) {
  const TemporaryFolder folder;
  const auto shards = make_shards(folder / "x", {{}, {1}, {}}, 2, 1000);
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(all_documents(shards), (std::vector<std::vector<int32_t>>{{1}}));
  EXPECT_TRUE(make_shards(folder / "y", {{}}, 2, 1000).empty());
}

// The worked example of docs/token-shards.md: "Hi" and "!" by bytes, EOS 256.
TEST(TokenShardTest, LaysItsBytesOutAsSpecified) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path(), {});
  ASSERT_TRUE(writer.append(std::vector<int32_t>{72, 105}));
  ASSERT_TRUE(writer.append(std::vector<int32_t>{256}));
  ASSERT_TRUE(writer.end_document(2));
  ASSERT_TRUE(writer.append(std::vector<int32_t>{33, 256}));
  ASSERT_TRUE(writer.end_document(1));
  ASSERT_TRUE(writer.finish());
  const std::string bytes = *read_file(folder / shard_name(0));
  ASSERT_EQ(bytes.size(), 64u + 16u + 48u);
  const auto number = [&bytes](size_t at, size_t width) {
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    return value;
  };
  EXPECT_EQ(bytes.substr(0, 8), "CADRETOK");
  EXPECT_EQ(number(8, 4), 1u);                    // version
  EXPECT_EQ(number(12, 4), 2u);                   // bytes of a token
  EXPECT_EQ(number(16, 8), 5u);                   // tokens
  EXPECT_EQ(number(24, 8), 2u);                   // documents
  EXPECT_EQ(number(32, 8), 256u);                 // largest id
  EXPECT_EQ(number(40, 8), 0x2115DA7F55AA2C06u);  // the checksums as the page prints them
  EXPECT_EQ(number(80 + 8, 8), 0x39D97F6F18118620u);
  EXPECT_EQ(number(104 + 8, 8), 0x30AAA0E859EB89C6u);
  const auto part = [&bytes](size_t at, size_t count) {
    return std::as_bytes(std::span(bytes).subspan(at, count));
  };
  EXPECT_EQ(number(40, 8), checksum_of(part(64, 16)));
  EXPECT_EQ(number(48, 8), checksum_of(part(80, 48)));
  EXPECT_EQ(number(56, 8), checksum_of(part(0, 56)));
  const std::vector<uint64_t> tokens = {72, 105, 256, 33, 256, 0, 0, 0};
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(number(64 + 2 * i, 2), tokens[i]);
  }
  const std::vector<uint64_t> index = {3, number(88, 8), 2, 5, number(112, 8), 1};
  for (size_t i = 0; i < index.size(); ++i) {
    EXPECT_EQ(number(80 + 8 * i, 8), index[i]);
  }
}

TEST(TokenShardTest, NoticesEveryFlippedBitAndEveryMissingByte) {
  const TemporaryFolder folder;
  const auto shards = make_shards(folder / "x", kDocuments, 2, 1000);
  const std::string good = *read_file(shards[0].path());
  for (size_t byte = 0; byte < good.size(); ++byte) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
    const auto flipped = TokenShard::open(put(folder, "bad", bad), TokenShard::Verify::kEverything);
    EXPECT_FALSE(flipped) << byte;
    const auto cut =
        TokenShard::open(put(folder, "bad", good.substr(0, byte)), TokenShard::Verify::kEverything);
    EXPECT_FALSE(cut) << byte;
  }
  const auto longer = TokenShard::open(put(folder, "bad", good + "x"), TokenShard::Verify::kIndex);
  EXPECT_NE(message_of(longer).find("bytes, the header wants"), std::string::npos);
}

}  // namespace
}  // namespace cadre::data
