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
    const TokenStream stream(shards, {.range = range});
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

TEST(TokenStreamTest, FindsTheDocumentOfAToken) {
  const TemporaryFolder folder;
  const auto shards = make_shards(folder / "x", {{1, 2}, {3}, {4, 5, 6}}, 4, 2);
  const TokenStream stream(shards, {});
  const TokenStream::Place place = stream.find(4);
  EXPECT_EQ(place.shard, 1);
  EXPECT_EQ(place.document, 1);
  EXPECT_EQ(place.begin, 3);
}

TEST(TokenStreamTest, HasThePartsOfCutDocuments) {
  const TemporaryFolder folder;
  const std::vector<std::vector<int32_t>> documents = {
      {1, 2, 3, 4, 5}, {6, 7}, {8, 9, 10}, {6, 7}, {11}};
  const auto shards = make_shards(folder / "x", documents, 2, 6);
  Selection heads = {.range = {.first = 1, .last = 0},  // none whole
                     .cuts = {{.hash = hash_of(documents[0]), .head = 2},
                              {.hash = hash_of(documents[1]), .head = 0},
                              {.hash = hash_of(documents[2]), .head = 3}}};
  std::ranges::sort(heads.cuts, {}, &DocumentCut::hash);
  Selection tails = heads;
  tails.tails = true;
  tails.range = {};  // all others
  const auto all_of = [&](const TokenStream& stream) {
    std::vector<std::vector<int32_t>> read(
        2, std::vector<int32_t>(static_cast<size_t>(stream.tokens())));
    stream.read(read[0], read[1], 0);
    return read;
  };
  const TokenStream first(shards, heads);
  EXPECT_EQ(all_of(first), (std::vector<std::vector<int32_t>>{{1, 2, 8, 9, 10}, {0, 0, 2, 2, 2}}));
  EXPECT_EQ(first.documents(), 2);
  EXPECT_EQ(first.text_bytes(), 9);  // of the third, which is whole
  EXPECT_TRUE(first.has_cuts());
  const TokenStream second(shards, tails);
  EXPECT_EQ(all_of(second), (std::vector<std::vector<int32_t>>{{3, 4, 5, 6, 7, 6, 7, 11},
                                                               {0, 0, 0, 3, 3, 5, 5, 7}}));
  const TokenStream::Place place = second.find(4);
  EXPECT_EQ(place.begin, 3);
  std::vector<int32_t> out(3), starts(3);
  second.read(out, starts, 4);
  EXPECT_EQ(out, (std::vector<int32_t>{7, 6, 7}));
  EXPECT_EQ(starts, (std::vector<int32_t>{0, 1, 1}));
}

}  // namespace
}  // namespace cadre::data
