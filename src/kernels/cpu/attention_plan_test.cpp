// The cut into blocks against a walk over all pairs of a query and a key.

#include "kernels/cpu/attention_plan.h"

#include <set>
#include <utility>
#include <vector>

#include "testing/test_support.h"

namespace cadre::kernels::cpu {
namespace {

struct Task {
  AttentionShape shape;
  ConstTensor start_BK;
  AttentionOptions options;
};

using Pairs = std::set<std::pair<int64_t, int64_t>>;

// Every pair that is computed, by runs of keys and by runs of queries; both must agree.
void check_block(const Task& task, int64_t b, int64_t first_query) {
  const QueryBlock block = query_block(task, b, first_query);
  Pairs by_queries;
  for (int64_t key = block.first_key() / kBlock * kBlock; key < block.end_key(); key += kBlock) {
    const BlockPair pair = pair_of(block, key, std::min(kBlock, block.end_key() - key));
    Pairs scores;
    for (int64_t r = 0; r < pair.runs; ++r) {
      const KeyRun& run = pair.run[static_cast<size_t>(r)];
      for (int64_t j = run.first; j < run.end; ++j) {
        for (int64_t i = run.first_group * kGroup; i < run.end_group * kGroup; ++i) {
          EXPECT_TRUE(scores.insert({i, j}).second) << "computed twice: " << i << ", " << j;
          if (i < block.rows && !run.masked[static_cast<size_t>(i / kGroup)]) {
            const KeyRange seen = visible_keys(task, b, first_query + i);
            EXPECT_TRUE(seen.first <= key + j && key + j < seen.end) << "not masked";
          }
        }
      }
    }
    for (int64_t r = 0; r < pair.query_runs; ++r) {
      const QueryRun& run = pair.query_run[static_cast<size_t>(r)];
      for (int64_t i = run.first; i < run.end; ++i) {
        for (int64_t j = run.first_key; j < run.end_key; ++j) {
          EXPECT_TRUE(scores.contains({i, j})) << "never computed: " << i << ", " << j;
          EXPECT_TRUE(by_queries.insert({i, key + j}).second) << "added twice";
        }
      }
    }
  }
  for (int64_t i = 0; i < block.rows; ++i) {
    const KeyRange seen = visible_keys(task, b, first_query + i);
    for (int64_t j = seen.first; j < seen.end; ++j) {
      EXPECT_TRUE(by_queries.contains({i, j})) << "left out: " << i << ", " << j;
    }
  }
}

TEST(AttentionPlan, ComputesEveryPairThatIsSeenOnce) {
  testing::Rig rig(testing::kCpu);
  std::vector<int32_t> starts;
  for (const int32_t length : {1, 2, 13, 40, 70, 5, 30, 39}) {
    starts.insert(starts.end(), static_cast<size_t>(length), static_cast<int32_t>(starts.size()));
  }
  const Tensor start = rig.ids({1, 200}, starts);
  for (const int64_t Q : {200, 130, 1}) {
    for (const int64_t window : {0, 1, 17, 64, 100}) {
      for (const ConstTensor& documents : {ConstTensor(), ConstTensor(start)}) {
        const Task task{.shape = {.B = 1, .Q = Q, .K = 200, .H = 1, .G = 1, .D = 1},
                        .start_BK = documents,
                        .options = {.scale = 1.0f, .window = window}};
        for (int64_t first = 0; first < Q; first += kBlock) {
          SCOPED_TRACE(concat("Q ", Q, " window ", window, " from query ", first));
          check_block(task, 0, first);
        }
      }
    }
  }
}

TEST(AttentionPlan, SkipsWhatIsMaskedAndDoesNotMaskWhatIsSeen) {
  const Task task{
      .shape = {.B = 1, .Q = 128, .K = 128, .H = 1, .G = 1, .D = 1}, .start_BK = {}, .options = {}};
  const QueryBlock second = query_block(task, 0, 64);
  const BlockPair whole = pair_of(second, 0, 64);
  ASSERT_EQ(whole.runs, 1);
  EXPECT_EQ(whole.run[0].end, 64);
  EXPECT_FALSE(whole.run[0].masked[0]);
  const BlockPair diagonal = pair_of(second, 64, 64);
  ASSERT_EQ(diagonal.runs, 4);  // 16 keys each, for 4, 3, 2 and 1 groups of queries
  EXPECT_EQ(diagonal.run[3].first_group, 3);
  EXPECT_TRUE(diagonal.run[1].masked[1]);
  EXPECT_FALSE(diagonal.run[1].masked[2]);
  EXPECT_EQ(pair_of(query_block(task, 0, 0), 64, 64).runs, 0);
}

TEST(AttentionPlan, TilesCoverEveryQueryOnceAndBeginWithTheLongest) {
  const AttentionShape shape{.B = 2, .Q = 700, .K = 700, .H = 6, .G = 3, .D = 8};
  const ForwardTiles tiles(shape);
  EXPECT_EQ(tiles.chunk, 128);  // for two heads at once
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t tile = 0; tile < tiles.count(); ++tile) {
    EXPECT_TRUE(seen.insert({tiles.group_of(tile), tiles.first_query(tile)}).second);
    EXPECT_TRUE(tile == 0 || tiles.first_query(tile) <= tiles.first_query(tile - 1));
  }
  EXPECT_EQ(seen.size(), 6u * 6u);
}

}  // namespace
}  // namespace cadre::kernels::cpu
