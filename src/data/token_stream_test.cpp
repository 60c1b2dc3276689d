#include "data/token_stream.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::make_shards;
using testing::TemporaryFolder;

// Documents of 1 to 20 tokens; more of them than one mark covers.
std::vector<std::vector<int32_t>> random_documents(size_t count) {
  std::vector<std::vector<int32_t>> documents(count);
  int64_t index = 0;
  for (auto& document : documents) {
    document.resize(1 + random_word_at({.seed = 4, .stream = 1}, index++) % 20);
    for (int32_t& id : document) {
      id = static_cast<int32_t>(random_word_at({.seed = 4, .stream = 2}, index++) % 60000);
    }
  }
  return documents;
}

uint64_t hash_of(const std::vector<int32_t>& document) {
  return checksum_of(std::as_bytes(std::span(document)));
}

TEST(TokenStreamTest, IsTheDocumentsOfItsRangeOneAfterTheOther) {
  const TemporaryFolder folder;
  const auto documents = random_documents(700);
  const auto shards = make_shards(folder / "x", documents, 2, 900);
  ASSERT_GT(shards.size(), 5u);
  const std::vector<HashRange> ranges = {
      {}, {.last = UINT64_MAX / 3}, {.first = UINT64_MAX / 3 + 1}, {.first = UINT64_MAX / 64 * 63}};
  for (const HashRange& range : ranges) {
    std::vector<int32_t> tokens;
    std::vector<int32_t> begins;  // of the document of each token
    int64_t count = 0;
    for (const auto& document : documents) {
      if (range.holds(hash_of(document))) {
        begins.insert(begins.end(), document.size(), static_cast<int32_t>(tokens.size()));
        tokens.insert(tokens.end(), document.begin(), document.end());
        ++count;
      }
    }
    const TokenStream stream(shards, range);
    ASSERT_EQ(stream.tokens(), static_cast<int64_t>(tokens.size()));
    EXPECT_EQ(stream.documents(), count);
    EXPECT_EQ(stream.text_bytes(), 3 * stream.tokens());
    for (int64_t first = 0; first < stream.tokens(); first += 37) {
      const auto length = static_cast<size_t>(std::min<int64_t>(51, stream.tokens() - first));
      std::vector<int32_t> out(length), starts(length);
      stream.read(out, starts, first);
      for (size_t i = 0; i < length; ++i) {
        const auto at = static_cast<size_t>(first) + i;
        ASSERT_EQ(out[i], tokens[at]);
        ASSERT_EQ(starts[i], std::max(0, begins[at] - static_cast<int32_t>(first)));
      }
    }
  }
}

TEST(TokenStreamTest, APartReadsAsTheWholeDoesThere) {
  const TemporaryFolder folder;
  const auto documents = random_documents(300);
  const auto shards = make_shards(folder / "x", documents, 2, 900);
  const TokenStream whole(shards, {});
  const TokenStream part = whole.part(1001, 997);
  ASSERT_EQ(part.tokens(), 997);
  EXPECT_EQ(part.text_bytes(), 3 * 997);
  for (const auto& [first, count] : {std::pair<int64_t, size_t>{0, 997}, {500, 3}, {996, 1}}) {
    std::vector<int32_t> out(count), starts(count), expected(count), expected_starts(count);
    part.read(out, starts, first);
    whole.read(expected, expected_starts, 1001 + first);
    EXPECT_EQ(out, expected);
    EXPECT_EQ(starts, expected_starts);
  }
}

TEST(TokenStreamTest, FindsTheDocumentOfAToken) {
  const TemporaryFolder folder;
  const auto shards = make_shards(folder / "x", {{1, 2}, {3}, {4, 5, 6}}, 4, 2);
  const TokenStream stream(shards, {});
  const TokenStream::Place place = stream.find(4);
  EXPECT_EQ(place.shard, 1);
  EXPECT_EQ(place.document, 1);
  EXPECT_EQ(place.begin, 3);
  EXPECT_EQ(stream.part(4, 2).find(0).document, 1);
  EXPECT_EQ(stream.part(4, 2).find(0).begin, -1);
}

}  // namespace
}  // namespace cadre::data
