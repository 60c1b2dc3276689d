#include "kernels/cpu/attention_plan.h"

namespace cadre::kernels::cpu {
namespace {

// Over the queries of one group.
struct GroupKeys {
  int64_t first_min = 0;
  int64_t first_max = 0;
  int64_t last_min = 0;
  int64_t last_max = 0;
};

GroupKeys keys_of_group(const QueryBlock& block, int64_t group) {
  const auto begin = static_cast<size_t>(group * kGroup);
  GroupKeys keys{block.first[begin], block.first[begin], block.last[begin], block.last[begin]};
  const auto end = static_cast<size_t>(std::min(block.rows, (group + 1) * kGroup));
  for (size_t row = begin; row < end; ++row) {
    keys.first_min = std::min<int64_t>(keys.first_min, block.first[row]);
    keys.first_max = std::max<int64_t>(keys.first_max, block.first[row]);
    keys.last_min = std::min<int64_t>(keys.last_min, block.last[row]);
    keys.last_max = std::max<int64_t>(keys.last_max, block.last[row]);
  }
  return keys;
}

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
  std::array<GroupKeys, kGroups> of_group;
  for (int64_t g = 0; g < groups; ++g) {
    of_group[static_cast<size_t>(g)] = keys_of_group(block, g);
  }
  BlockPair pair;
  std::array<QueryRun, kGroups> queries;
  for (int64_t first = 0; first < keys; first += kGroup) {
    KeyRun segment{.first = first, .end = std::min(keys, first + kGroup), .first_group = groups};
    for (int64_t g = 0; g < groups; ++g) {
      const GroupKeys& seen = of_group[static_cast<size_t>(g)];
      if (first_key + segment.end <= seen.first_min || seen.last_max < first_key + first) {
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
      const GroupKeys& seen = of_group[static_cast<size_t>(g)];
      run.masked[static_cast<size_t>(g)] =
          first_key + run.first < seen.first_max || seen.last_min < first_key + run.end - 1;
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
