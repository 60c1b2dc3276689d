// Faults that users of training engines met (docs/field-cases.md), as far as data can show them.

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/dataset.h"
#include "data/mixing.h"
#include "data/support_test.h"

namespace cadre::data {
namespace {

using testing::byte_encoder;
using testing::filled;
using testing::kEos;
using testing::kVocabSize;
using testing::OwnedBatch;
using testing::put;
using testing::TemporaryFolder;

class FieldCases : public ::testing::Test {
 protected:
  FieldCases() {
    spec_.sequence_length = 4;
    spec_.validation_fraction = 0.0;
    spec_.cache_directory = (folder_ / "cache").string();
  }

  std::string tokens_json(const std::string& name, int32_t first, int32_t count) {
    std::string text = "[[";
    for (int32_t id = first; id < first + count; ++id) {
      text += id == first ? "" : ",";
      text += std::to_string(id % 256);
    }
    return put(folder_, name + ".json", text + "]]");
  }

  std::unique_ptr<Dataset> opened() {
    auto dataset = Dataset::open(spec_, {.encoder = byte_encoder(), .vocab_size = kVocabSize});
    CADRE_CHECK(dataset.ok(), testing::message_of(dataset));
    return std::move(*dataset);
  }

  // The training stream, from scratch each time: as a process that has just been started sees it.
  std::vector<SampleId> ids(int64_t first, int64_t count) {
    const auto dataset = opened();
    return filled(*dataset->training(7), first, count).ids;
  }

  TemporaryFolder folder_;
  DataSpec spec_;
};

// Resuming restarted the data, or only one worker's place was kept.
TEST_F(FieldCases, E1_StepsAfterAResumeEqualTheUninterruptedRun) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 101)}}};
  constexpr int64_t kBatch = 3;
  const auto whole = ids(0, 30 * kBatch);  // beyond the epoch's end at sample 25
  const auto resumed = ids(16 * kBatch, 14 * kBatch);
  EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(), whole.begin() + 16 * kBatch));
}

// The state of ranks above 15 was empty. Here there is no state a rank: any rank's samples follow
// from numbers.
TEST_F(FieldCases, E2_ThirtyTwoRanksShareABatchWithoutState) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 96 + 1)}}};
  const auto whole = ids(0, 96);
  const auto dataset = opened();
  for (int64_t rank = 0; rank < 32; ++rank) {
    const auto stream = dataset->training(7);
    const auto mine = filled(*stream, 64 + rank, 1).ids;
    EXPECT_EQ(mine[0], whole[static_cast<size_t>(64 + rank)]);
  }
}

// 64 samples, batch 4 on 2 ranks, saved after 3 batches of epoch 1: the order of epoch 0 came back.
TEST_F(FieldCases, E3_ResumingInsideALaterEpochKeepsThatEpochsOrder) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 64 + 1)}}};
  constexpr int64_t kGlobalBatch = 8;
  const auto whole = ids(0, 128);
  EXPECT_FALSE(std::equal(whole.begin(), whole.begin() + 64, whole.begin() + 64,
                          [](const SampleId& a, const SampleId& b) { return a.index == b.index; }));
  for (int64_t step = 8 + 3; step < 16; ++step) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const int64_t first = step * kGlobalBatch + rank * 4;
      const auto batch = ids(first, 4);
      EXPECT_TRUE(std::equal(batch.begin(), batch.end(), whole.begin() + first));
      EXPECT_EQ(batch[0].epoch, 1);
    }
  }
}

// The batch that was trained last came again after a resume.
TEST_F(FieldCases, E5_ResumingAtStep10StartsAtBatch11) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 40 + 1)}}};
  const auto whole = ids(0, 40);
  const auto resumed = ids(10 * 2, 20);
  std::set<int64_t> trained;
  for (size_t i = 0; i < 20; ++i) {
    trained.insert(whole[i].index);
  }
  for (const SampleId& id : resumed) {
    EXPECT_FALSE(trained.contains(id.index));
  }
}

// Two ranks that take turns: after step 220 rank 0 goes on with 224, 226, ..., rank 1 with the odd.
TEST_F(FieldCases, E6_RanksThatTakeTurnsStayInStepAfterAResume) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 300 + 1)}}};
  const auto whole = ids(0, 300);
  for (int64_t rank = 0; rank < 2; ++rank) {
    for (int64_t sample = 224 + rank; sample < 240; sample += 2) {
      EXPECT_EQ(ids(sample, 1)[0], whole[static_cast<size_t>(sample)]);
    }
  }
}

// The index cache was looked for on a node that had not built it. Each file system has its own
// cache, and an empty one gives the same samples.
TEST_F(FieldCases, E7_ANodeWithAnEmptyCacheBuildsItsOwnAndReadsTheSame) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 20 + 1)}}};
  const auto first = opened();
  spec_.cache_directory = (folder_ / "other-node").string();
  const auto second = opened();
  EXPECT_FALSE(second->reports()[0].reused);
  EXPECT_TRUE(filled(*first->training(7), 0, 50) == filled(*second->training(7), 0, 50));
}

// Rounding repeated samples; sources were cut off; a source that would give none crashed.
TEST_F(FieldCases, E9_MixturesCountExactly) {
  spec_.sources = {{.paths = {tokens_json("a", 0, 4 * 30 + 1)}, .weight = 0.7},
                   {.paths = {tokens_json("b", 1, 4 * 50 + 1)}, .weight = 0.29},
                   {.paths = {tokens_json("c", 2, 4 * 3 + 1)}, .weight = 0.01}};
  const auto dataset = opened();
  const auto stream = dataset->training(7);
  EXPECT_EQ(stream->samples_per_epoch(), 83);  // less than a period of 100: c may give none
  std::vector<int64_t> given(3, 0);
  std::set<std::tuple<int32_t, int64_t, int64_t>> seen;
  for (const SampleId& id : filled(*stream, 0, 1000).ids) {
    ++given[static_cast<size_t>(id.source)];
    EXPECT_TRUE(seen.insert({id.source, id.epoch, id.index}).second);
  }
  EXPECT_EQ(given, (std::vector<int64_t>{700, 290, 10}));
}

// a = [1, 2, 3], b = [4, ..., 8] packed into one row. What the model must be told so that the loss
// is that of the two alone; the loss itself is tested in model/.
TEST_F(FieldCases, E10_PackedDocumentsKeepPositionsTargetsAndStartsOfTheirOwn) {
  spec_.sources = {{.paths = {put(folder_, "a.json", "[[1,2,3],[4,5,6,7,8],[9]]")}}};
  spec_.sequence_length = 8;
  spec_.packing = Packing::kDocument;
  const auto dataset = opened();
  const OwnedBatch row = filled(*dataset->training(1), 0, 1);
  constexpr int32_t X = kIgnoredTarget;
  EXPECT_EQ(row.tokens, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(row.targets, (std::vector<int32_t>{2, 3, X, 5, 6, 7, 8, X}));
  EXPECT_EQ(row.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 3, 4}));
  EXPECT_EQ(row.starts, (std::vector<int32_t>{0, 0, 0, 3, 3, 3, 3, 3}));
}

// Repeated evaluation inside the loop moved the order of the training data.
TEST_F(FieldCases, E14_EvaluatingInBetweenMovesNoTrainingSample) {
  std::string text;
  for (int32_t i = 0; i < 200; ++i) {
    text += i == 0 ? "[[" : ",[";
    text += std::to_string(i);
    text += ",1,2,3]";
  }
  spec_.sources = {{.paths = {put(folder_, "a.json", text + "]")}}};
  spec_.validation_fraction = 0.2;
  const auto dataset = opened();
  const auto alone = dataset->training(7);
  const auto disturbed = dataset->training(7);
  const auto validation = dataset->validation();
  const OwnedBatch first = filled(*validation, 0, validation->samples_per_epoch());
  for (int64_t step = 0; step < 80; ++step) {
    EXPECT_TRUE(filled(*disturbed, 3 * step, 3) == filled(*alone, 3 * step, 3));
    if (step % 7 == 0) {
      EXPECT_TRUE(filled(*validation, 0, validation->samples_per_epoch()) == first);
    }
  }
}

// BOS stood between documents, and EOS was never seen. Here EOS follows every document of text and
// is a target, under both packings.
TEST_F(FieldCases, F5_EveryDocumentEndsWithAnEosThatIsLearnt) {
  spec_.sources = {{.paths = {put(folder_, "a.jsonl",
                                  "{\"text\":\"ab\"}\n{\"text\":\"cd\"}\n"
                                  "{\"text\":\"ef\"}\n")}}};
  spec_.shuffle = false;
  spec_.sequence_length = 8;
  const auto plain = opened();
  const OwnedBatch stream = filled(*plain->training(1), 0, 1);
  EXPECT_EQ(stream.targets, (std::vector<int32_t>{'b', kEos, 'c', 'd', kEos, 'e', 'f', kEos}));
  spec_.packing = Packing::kDocument;
  const auto apart = opened();
  const OwnedBatch documents = filled(*apart->training(1), 0, 1);
  constexpr int32_t X = kIgnoredTarget;
  EXPECT_EQ(documents.targets, (std::vector<int32_t>{'b', kEos, X, 'd', kEos, X, 'f', kEos}));
}

}  // namespace
}  // namespace cadre::data
