#include "data/split.h"

#include <gtest/gtest.h>

#include <set>

#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::make_shards;
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
    const Split split = split_documents(all, {.fraction = fraction});
    CADRE_CHECK(split.cut_sources.empty());
    std::set<int32_t> ids;
    for (size_t source = 0; source < sources.size(); ++source) {
      const TokenStream training(shards[source], split.training);
      const TokenStream validation(shards[source], split.validation);
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

  // What each side has of the documents of each source, as one list of tokens.
  struct Sides {
    std::vector<std::vector<int32_t>> training = {};
    std::vector<std::vector<int32_t>> validation = {};
    std::vector<size_t> cut_sources = {};
  };

  Sides sides(const std::vector<Documents>& sources, const SplitOptions& options) {
    std::vector<std::vector<TokenShard>> shards;
    for (const Documents& documents : sources) {
      shards.push_back(make_shards(folder_ / std::to_string(++folders_), documents, 4, 50));
    }
    const std::vector<std::span<const TokenShard>> all(shards.begin(), shards.end());
    const Split split = split_documents(all, options);
    const auto tokens_of = [](const TokenStream& stream) {
      std::vector<int32_t> tokens(static_cast<size_t>(stream.tokens())), starts(tokens);
      stream.read(tokens, starts, 0);
      return tokens;
    };
    Sides sides = {.cut_sources = split.cut_sources};
    for (const auto& source : shards) {
      sides.training.push_back(tokens_of(TokenStream(source, split.training)));
      sides.validation.push_back(tokens_of(TokenStream(source, split.validation)));
    }
    return sides;
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

std::vector<int32_t> counted(int32_t from, int32_t to) {
  std::vector<int32_t> tokens;
  for (int32_t i = from; i < to; ++i) {
    tokens.push_back(i);
  }
  return tokens;
}

TEST_F(SplitTest, CutsTheEndOffALoneDocument) {
  const Sides plain = sides({{counted(0, 100)}}, {.fraction = 0.1});
  EXPECT_EQ(plain.training[0], counted(0, 90));
  EXPECT_EQ(plain.validation[0], counted(90, 100));
  EXPECT_EQ(plain.cut_sources, std::vector<size_t>{0});
  // Two tokens at least: one is predicted from the other.
  EXPECT_EQ(sides({{counted(0, 100)}}, {.fraction = 1e-9}).validation[0], counted(98, 100));
  EXPECT_EQ(sides({{{1}}}, {.fraction = 0.5}).validation[0], std::vector<int32_t>{1});
}

TEST_F(SplitTest, CutsAtTheNearestEndOfALine) {
  const auto validating = [&](const std::set<int32_t>& line_ends) {
    return sides({{counted(0, 1000)}},
                 {.fraction = 0.1, .ends_line = [&](int32_t id) { return line_ends.contains(id); }})
        .validation[0];
  };
  EXPECT_EQ(validating({870, 920}), counted(921, 1000));
  EXPECT_EQ(validating({870, 930}), counted(871, 1000));
  EXPECT_EQ(validating({899}), counted(900, 1000));
  EXPECT_EQ(validating({849}), counted(850, 1000));       // half more
  EXPECT_EQ(validating({949}), counted(950, 1000));       // half
  EXPECT_EQ(validating({848, 950}), counted(900, 1000));  // too far away: anywhere
  EXPECT_EQ(validating({}), counted(900, 1000));
}

TEST_F(SplitTest, CutsEqualDocumentsAtTheSamePlace) {
  const Sides found =
      sides({{counted(0, 10), counted(0, 10)}, {counted(0, 10)}}, {.fraction = 0.3});
  EXPECT_EQ(found.training[1], counted(0, 7));
  EXPECT_EQ(found.validation[1], counted(7, 10));
  EXPECT_EQ(found.validation[0], (std::vector<int32_t>{7, 8, 9, 7, 8, 9}));
}

TEST_F(SplitTest, CutsOnlyTheSourceThatWouldHaveNothingToTrainOn) {
  Documents many = numbered(100);
  std::vector<size_t> kept;
  for (int32_t lone = 1; lone <= 40; ++lone) {
    const std::vector<int32_t> document = counted(1000 * lone, 1000 * lone + 20);
    many.back() = document;  // the same also stands in the other source
    const Sides found = sides({many, {document}}, {.fraction = 0.2, .training_tokens_min = 10});
    if (found.cut_sources.empty()) {
      EXPECT_EQ(found.training[1], document);
      EXPECT_TRUE(found.validation[1].empty());
      kept.push_back(static_cast<size_t>(lone));
      continue;
    }
    EXPECT_EQ(found.cut_sources, std::vector<size_t>{1});
    EXPECT_EQ(found.training[1], counted(1000 * lone, 1000 * lone + 16));
    EXPECT_EQ(found.validation[1], counted(1000 * lone + 16, 1000 * lone + 20));
    // Its copy is cut, too, and the others are whole.
    const auto& validation = found.validation[0];
    EXPECT_EQ(std::ranges::count(validation, 1000 * lone + 15), 0);
    EXPECT_EQ(std::ranges::count(validation, 1000 * lone + 16), 1);
    EXPECT_EQ(found.training[0].size() + validation.size(), 99 * 3 + 20u);
  }
  EXPECT_NEAR(static_cast<double>(kept.size()), 32, 7);  // a fifth would validate
}

TEST_F(SplitTest, LeavesASourceThatIsTooSmallAnyway) {
  const Sides found =
      sides({numbered(50), {{7, 8, 9}}}, {.fraction = 0.3, .training_tokens_min = 9});
  EXPECT_TRUE(found.cut_sources.empty());
}

}  // namespace
}  // namespace cadre::data
