#include "kernels/cpu/attention_plan.h"

namespace cadre::kernels::cpu {
namespace {

// Neighbouring segments that the same groups see become one run.
void add_segment(BlockPair& pair, const KeyRun& segment) {
  if (pair.runs > 0) {
    KeyRun& before = pair.run[static_cast<size_t>(pair.runs - 1)];
    if (before.end == segment.first && before.first_group == segment.first_group &&
        before.end_group == segment.end_group) {
      before.end = segment.end;
      return;
    }
  }
  pair.run[static_cast<size_t>(pair.runs++)] = segment;
}

void add_query_run(BlockPair& pair, const QueryRun& queries) {
  if (pair.query_runs > 0) {
    QueryRun& before = pair.query_run[static_cast<size_t>(pair.query_runs - 1)];
    if (before.end == queries.first && before.first_key == queries.first_key &&
        before.end_key == queries.end_key) {
      before.end = queries.end;
      return;
    }
  }
  pair.query_run[static_cast<size_t>(pair.query_runs++)] = queries;
}

}  // namespace

BlockPair pair_of(const QueryBlock& block, int64_t first_key, int64_t keys) {
  const int64_t groups = block.groups();
  BlockPair pair;
  if (block.all.see_all(first_key, first_key + keys)) {
    add_segment(pair, {.first = 0, .end = keys, .first_group = 0, .end_group = groups});
    add_query_run(pair, {.first = 0, .end = block.rows, .first_key = 0, .end_key = keys});
    return pair;
  }
  std::array<QueryRun, kGroups> queries;
  for (int64_t first = 0; first < keys; first += kGroup) {
    KeyRun segment{.first = first, .end = std::min(keys, first + kGroup), .first_group = groups};
    for (int64_t g = 0; g < groups; ++g) {
      if (!block.of_group[static_cast<size_t>(g)].see_some(first_key + first,
                                                           first_key + segment.end)) {
        continue;
      }
      segment.first_group = std::min(segment.first_group, g);
      segment.end_group = g + 1;
      QueryRun& run = queries[static_cast<size_t>(g)];
      run.first_key = run.end_key == 0 ? first : run.first_key;
      run.end_key = segment.end;
    }
    if (segment.first_group < segment.end_group) {
      add_segment(pair, segment);
    }
  }
  for (int64_t r = 0; r < pair.runs; ++r) {
    KeyRun& run = pair.run[static_cast<size_t>(r)];
    for (int64_t g = run.first_group; g < run.end_group; ++g) {
      const auto at = static_cast<size_t>(g);
      run.masked[at] = !block.of_group[at].see_all(first_key + run.first, first_key + run.end);
    }
  }
  for (int64_t g = 0; g < groups; ++g) {
    QueryRun run = queries[static_cast<size_t>(g)];
    if (run.end_key > 0) {
      run.first = g * kGroup;
      run.end = std::min(block.rows, run.first + kGroup);
      add_query_run(pair, run);
    }
  }
  return pair;
}

}  // namespace cadre::kernels::cpu
