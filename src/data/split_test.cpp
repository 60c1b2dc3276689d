#include "data/split.h"

#include <gtest/gtest.h>

#include <set>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::make_shards;
using testing::message_of;
using testing::TemporaryFolder;

using Documents = std::vector<std::vector<int32_t>>;

Documents numbered(int32_t count) {
  Documents documents;
  for (int32_t i = 0; i < count; ++i) {
    documents.push_back({i, 7, i / 3});
  }
  return documents;
}

class SplitTest : public ::testing::Test {
 protected:
  // First ids of the documents that validate.
  std::set<int32_t> validating(const std::vector<Documents>& sources, double fraction) {
    std::vector<std::vector<TokenShard>> shards;
    for (const Documents& documents : sources) {
      const auto path = folder_ / std::to_string(++folders_);
      shards.push_back(make_shards(path, documents, 4, 1000));
    }
    const std::vector<std::span<const TokenShard>> all(shards.begin(), shards.end());
    const Result<Split> split = split_documents(all, fraction);
    CADRE_CHECK(split.ok(), message_of(split));
    std::set<int32_t> ids;
    for (size_t source = 0; source < sources.size(); ++source) {
      const TokenStream training(shards[source], split->training);
      const TokenStream validation(shards[source], split->validation);
      EXPECT_EQ(training.documents() + validation.documents(),
                static_cast<int64_t>(sources[source].size()));
      for (int64_t token = 0; token < validation.tokens();) {
        const auto place = validation.find(token);
        std::vector<int32_t> id(1), start(1);
        validation.read(id, start, token);
        ids.insert(id[0]);
        const auto entries = validation.shard(place.shard).documents();
        const auto document = static_cast<size_t>(place.document);
        token += static_cast<int64_t>(entries[document].end -
                                      (document == 0 ? 0 : entries[document - 1].end));
      }
    }
    return ids;
  }

  std::string refusal(const Documents& documents) {
    const auto shards = make_shards(folder_ / "refused", documents, 4, 1000);
    const std::vector<std::span<const TokenShard>> all = {shards};
    return message_of(split_documents(all, 0.1));
  }

  TemporaryFolder folder_;
  int folders_ = 0;
};

TEST_F(SplitTest, TakesAboutTheFraction) {
  EXPECT_NEAR(static_cast<double>(validating({numbered(5000)}, 0.1).size()), 500, 75);
  EXPECT_NEAR(static_cast<double>(validating({numbered(5000)}, 0.01).size()), 50, 25);
}

TEST_F(SplitTest, DependsOnTheContentOnly) {
  Documents documents = numbered(1000);
  const auto wanted = validating({documents}, 0.1);
  std::ranges::reverse(documents);
  EXPECT_EQ(validating({documents}, 0.1), wanted);
  const auto half = documents.begin() + 500;
  const Documents first(documents.begin(), half), second(half, documents.end());
  EXPECT_EQ(validating({first, second}, 0.1), wanted);
  // A document more moves no other.
  documents.push_back({5000});
  auto with_more = validating({documents}, 0.1);
  with_more.erase(5000);
  EXPECT_EQ(with_more, wanted);
  // A larger fraction only adds.
  const auto more = validating({documents}, 0.2);
  EXPECT_TRUE(std::ranges::includes(more, wanted));
}

TEST_F(SplitTest, PutsADocumentOnEachSideOfASmallCorpus) {
  for (int32_t count = 2; count < 12; ++count) {
    for (const double fraction : {1e-18, 0.01, 0.5, 0.99, 1 - 0x1p-53}) {
      const size_t validate = validating({numbered(count)}, fraction).size();
      EXPECT_GE(validate, 1u) << count << " " << fraction;
      EXPECT_LT(validate, static_cast<size_t>(count)) << count << " " << fraction;
    }
  }
}

TEST_F(SplitTest, KeepsEqualDocumentsTogetherAcrossSources) {
  const Documents twice = {{1, 2}, {3, 4}, {1, 2}};
  EXPECT_EQ(validating({twice, {{3, 4}}, {{1, 2}}}, 0.3).size(), 1u);
}

TEST_F(SplitTest, CutsTheTailOffACorpusOfOneDocument) {
  const auto training_tokens = [this](size_t tokens, double fraction) {
    const auto shards = make_shards(folder_ / concat("one", folders_++),
                                    {std::vector<int32_t>(tokens, 7)}, 2, 1000);
    const std::vector<std::span<const TokenShard>> all = {shards};
    return split_documents(all, fraction)->training_tokens;
  };
  EXPECT_EQ(training_tokens(1000, 0.01), 990);
  EXPECT_EQ(training_tokens(1001, 0.01), 990);  // rounded up
  EXPECT_EQ(training_tokens(10, 0.01), 8);      // a target needs two
  EXPECT_EQ(training_tokens(3, 0.5), 1);
}

TEST_F(SplitTest, RefusesWhatCannotBeSplit) {
  EXPECT_NE(refusal({{1, 2}}).find("cannot cut the one document of 2 tokens"), std::string::npos);
  EXPECT_NE(refusal({{1, 2}, {1, 2}}).find("2 documents that are all equal"), std::string::npos);
}

}  // namespace
}  // namespace cadre::data
