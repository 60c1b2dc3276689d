#include "data/sampling.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/step_error.h"
#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::filled;
using testing::make_shards;
using testing::OwnedBatch;
using testing::TemporaryFolder;

// Tokens of source s are 1000 s + 0, 1, 2, ..., in documents of 1, 2, 3, 1, 2, 3, ... tokens.
class SamplingTest : public ::testing::Test {
 protected:
  void add_source(int64_t tokens, double weight) {
    const auto number = static_cast<int32_t>(streams_.size());
    std::vector<std::vector<int32_t>> documents;
    for (int32_t id = 0; id < tokens;) {
      documents.emplace_back();
      for (size_t i = 0; i < 1 + (documents.size() - 1) % 3 && id < tokens; ++i) {
        documents.back().push_back(1000 * number + id++);
      }
    }
    shards_.push_back(std::make_unique<std::vector<TokenShard>>(
        make_shards(folder_ / std::to_string(number), documents, 4, 20)));
    streams_.push_back(std::make_unique<TokenStream>(*shards_.back(), Selection{}));
    sources_.push_back(
        {.name = std::to_string(number), .weight = weight, .tokens = streams_.back().get()});
  }

  std::unique_ptr<SampleStream> training() { return make_training_stream(sources_, options_); }
  std::unique_ptr<SampleStream> validation() { return make_validation_stream(sources_, options_); }

  TemporaryFolder folder_;
  std::vector<std::unique_ptr<std::vector<TokenShard>>> shards_;
  std::vector<std::unique_ptr<TokenStream>> streams_;
  std::vector<SampledSource> sources_;
  SamplingOptions options_ = {.sequence_length = 4, .seed = 5, .vocab_size = 100000};
};

TEST_F(SamplingTest, CutsAPlainStreamIntoSequences) {
  add_source(11, 1.0);
  options_.shuffle = false;
  const auto stream = training();
  EXPECT_EQ(stream->samples_per_epoch(), 2);  // 10 / 4: tokens 9 and 10 are not used
  const OwnedBatch batch = filled(*stream, 0, 2);
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batch.starts, (std::vector<int32_t>(8, 0)));
  EXPECT_EQ(batch.ids, (std::vector<SampleId>{{0, 0, 0}, {0, 0, 1}}));
}

// Lists of one token more than a sequence were cut by somebody who meant each to be a sample.
TEST_F(SamplingTest, TakesDocumentsOfOneSequenceAndItsTargetsAsSamples) {
  const std::vector<std::vector<int32_t>> documents = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
  const std::vector<TokenShard> shards = make_shards(folder_ / "lists", documents, 4, 20);
  const TokenStream tokens(shards, Selection{});
  sources_.push_back({.name = "lists", .weight = 1.0, .tokens = &tokens});
  options_.shuffle = false;
  for (const auto& stream : {training(), validation()}) {
    EXPECT_EQ(stream->samples_per_epoch(), 2);
    OwnedBatch batch(2, 4);
    EXPECT_EQ(stream->fill(0, batch.view()), 8);
    EXPECT_EQ(batch.tokens, (std::vector<int32_t>{1, 2, 3, 4, 6, 7, 8, 9}));
    EXPECT_EQ(batch.targets, (std::vector<int32_t>{2, 3, 4, 5, 7, 8, 9, 10}));
  }
}

// Documents 0 | 1 2 | 3 4 5 | 6 | 7 8 | 9 10: what begins a document has no token to be foretold
// from.
TEST_F(SamplingTest, KeepsDocumentsApart) {
  add_source(11, 1.0);
  options_.shuffle = false;
  options_.packing = Packing::kDocument;
  const auto stream = training();
  OwnedBatch batch(2, 4);
  EXPECT_EQ(stream->fill(0, batch.view()), 4);
  constexpr int32_t X = kIgnoredTarget;
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{X, 2, X, 4, 5, X, X, 8}));
  EXPECT_EQ(batch.starts, (std::vector<int32_t>{0, 1, 1, 3, 0, 0, 2, 3}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 0, 1, 0, 0, 1, 0, 0}));
}

TEST_F(SamplingTest, SeesEverySequenceOnceAnEpochInAnOrderOfItsOwn) {
  add_source(4 * 50 + 3, 1.0);
  const auto stream = training();
  ASSERT_EQ(stream->samples_per_epoch(), 50);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    orders.emplace_back();
    for (const SampleId& id : filled(*stream, 50 * epoch, 50).ids) {
      EXPECT_EQ(id.epoch, epoch);
      seen.insert(id.index);
      orders.back().push_back(id.index);
    }
    EXPECT_EQ(seen.size(), 50u);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  options_.seed = 6;
  std::vector<int64_t> other;
  for (const SampleId& id : filled(*training(), 0, 50).ids) {
    other.push_back(id.index);
  }
  EXPECT_NE(orders[0], other);
}

TEST_F(SamplingTest, GivesEachSampleWhateverIsAskedBeforeAndBeside) {
  add_source(90, 3.0);
  add_source(45, 2.0);
  options_.packing = Packing::kDocument;
  const auto stream = training();
  const OwnedBatch all = filled(*stream, 0, 120);
  const auto again = training();
  for (const int64_t first : {100, 7, 31, 0, 64, 63}) {
    const OwnedBatch few = filled(*again, first, 5);
    for (size_t i = 0; i < few.tokens.size(); ++i) {
      const size_t at = static_cast<size_t>(4 * first) + i;
      ASSERT_EQ(few.tokens[i], all.tokens[at]);
      ASSERT_EQ(few.targets[i], all.targets[at]);
      ASSERT_EQ(few.starts[i], all.starts[at]);
      ASSERT_EQ(few.positions[i], all.positions[at]);
      ASSERT_EQ(few.ids[i / 4], all.ids[at / 4]);
    }
  }
}

TEST_F(SamplingTest, MixesExactlyAndUsesUpASourceBeforeItReturns) {
  add_source(4 * 10 + 1, 0.5);  // 10 sequences
  add_source(4 * 33 + 1, 0.3);  // 33
  add_source(4 * 4 + 1, 0.2);   // 4
  const auto stream = training();
  ASSERT_EQ(stream->samples_per_epoch(), 40);  // 47, down to whole periods of 5 : 3 : 2
  const std::vector<int64_t> sequences = {10, 33, 4};
  const std::vector<int64_t> ratio = {5, 3, 2};
  std::vector<int64_t> given(3, 0);
  std::map<std::pair<int32_t, int64_t>, std::set<int64_t>> seen;
  for (int64_t n = 0; n < 400; ++n) {
    const OwnedBatch sample = filled(*stream, n, 1);
    const SampleId id = sample.ids[0];
    const auto source = static_cast<size_t>(id.source);
    EXPECT_EQ(sample.tokens[0], 1000 * id.source + 4 * id.index);
    EXPECT_EQ(id.epoch, given[source] / sequences[source]);
    EXPECT_TRUE((seen[{id.source, id.epoch}].insert(id.index).second)) << n;
    ++given[source];
    for (size_t s = 0; s < 3; ++s) {
      EXPECT_LT(std::abs(given[s] * 10 - (n + 1) * ratio[s]), 10) << n;
      if ((n + 1) % 40 == 0) {
        EXPECT_EQ(given[s] * 10, (n + 1) * ratio[s]);
      }
    }
  }
  for (const auto& [pass, indices] : seen) {
    const auto source = static_cast<size_t>(pass.first);
    const bool complete = pass.second < given[source] / sequences[source];
    EXPECT_TRUE(!complete || static_cast<int64_t>(indices.size()) == sequences[source]);
  }
}

TEST_F(SamplingTest, ValidatesEveryTokenOnceAndPadsTheRest) {
  add_source(10, 1.0);
  add_source(1, 1.0);  // no target
  add_source(5, 9.0);
  const auto stream = validation();
  ASSERT_EQ(stream->samples_per_epoch(), 4);
  OwnedBatch batch(6, 4);
  EXPECT_EQ(stream->fill(0, batch.view()), 9 + 4);
  constexpr int32_t X = kIgnoredTarget;
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{0,    1,    2,    3,    4, 5, 6, 7, 8, 9, 0, 0,
                                                2000, 2001, 2002, 2003, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{1,    2,    3,    4,    5, 6, 7, 8, 9, X, X, X,
                                                 2001, 2002, 2003, 2004, X, X, X, X, X, X, X, X}));
  EXPECT_EQ(batch.ids, (std::vector<SampleId>{
                           {0, 0, 0}, {0, 0, 1}, {0, 0, 2}, {2, 0, 0}, {-1, 0, 0}, {-1, 0, 0}}));
  // Apart: 0 | 1 2 | 3 4 5 | 6 | 7 8 | 9
  options_.packing = Packing::kDocument;
  EXPECT_EQ(validation()->fill(0, batch.view()), 1 + 2 + 1 + 1 + 1);
}

TEST_F(SamplingTest, StopsTheStepWhenAShardWentBad) {
  add_source(10, 1.0);
  options_.vocab_size = 9;
  options_.shuffle = false;
  const auto stream = validation();
  filled(*stream, 0, 1);
  try {
    filled(*stream, 1, 2);
    FAIL();
  } catch (const StepError& error) {
    EXPECT_NE(std::string(error.what()).find("holds token 9, which is not below vocab_size 9"),
              std::string::npos);
  }
}

// Documents 0 to 10 hold tokens 0 to 20 and fill the first shard; 21 22 23 | 24 | ... follow.
TEST_F(SamplingTest, SaysWhereASampleComesFrom) {
  add_source(90, 1.0);
  const std::string text = training()->describe({.source = 0, .epoch = 2, .index = 6});
  EXPECT_NE(text.find("source \"0\", epoch 2, sequence 6 (from token 0 of document 1 of "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("shard-00001.tokens"), std::string::npos) << text;
}

}  // namespace
}  // namespace cadre::data
