// How the fast implementations of attention cut their work, and where in a thread's scratch things
// lie: pure functions of shapes, so that neither the number of threads nor the width of a vector
// changes what is added to what.
//
// A query block is 64 queries of one head, a key block 64 keys. Scores of a pair of blocks stand
// transposed, [key][query], so that a vector holds one key's scores of 16 (or 8, or 4) queries: the
// softmax then needs no sums across lanes. Queries are looked at in groups of 16, keys in segments
// of 16; a segment that a whole group does not see is not computed for that group.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "device/memory.h"
#include "kernels/attention_backend.h"

namespace cadre::kernels::cpu {

inline constexpr int64_t kBlock = 64;  // queries, keys
inline constexpr int64_t kGroup = 16;  // queries of a group, keys of a segment
inline constexpr int64_t kGroups = kBlock / kGroup;

// Rows are padded with zeroes to whole vectors of any width.
constexpr int64_t padded(int64_t count) {
  return (count + kGroup - 1) / kGroup * kGroup;
}

// Keys [first, end) counted from the first of their block, and the groups [first_group, end_group)
// that see some of them.
struct KeyRun {
  int64_t first = 0;
  int64_t end = 0;
  int64_t first_group = 0;
  int64_t end_group = 0;
  std::array<bool, kGroups> masked{};  // the group does not see all of them

  bool has(int64_t group) const { return first_group <= group && group < end_group; }
};

// Queries [first, end) of a block that see keys [first_key, end_key) of a key block.
struct QueryRun {
  int64_t first = 0;
  int64_t end = 0;
  int64_t first_key = 0;
  int64_t end_key = 0;
};

// One pair of blocks.
struct BlockPair {
  int64_t runs = 0;
  std::array<KeyRun, kGroups> run;
  int64_t query_runs = 0;
  std::array<QueryRun, kGroups> query_run;
};

// The least and the greatest of the first and the last keys that some queries see.
struct KeyBounds {
  int64_t first_min = INT64_MAX;
  int64_t first_max = INT64_MIN;
  int64_t last_min = INT64_MAX;
  int64_t last_max = INT64_MIN;

  void include(const KeyRange& keys) {
    first_min = std::min(first_min, keys.first);
    first_max = std::max(first_max, keys.first);
    last_min = std::min(last_min, keys.end - 1);
    last_max = std::max(last_max, keys.end - 1);
  }
  bool see_all(int64_t first_key, int64_t end_key) const {
    return first_max <= first_key && end_key - 1 <= last_min;
  }
  bool see_some(int64_t first_key, int64_t end_key) const {
    return first_min < end_key && first_key <= last_max;
  }
};

// Which keys the queries of a block see.
struct QueryBlock {
  int64_t rows = 0;
  KeyBounds all;
  std::array<KeyBounds, kGroups> of_group;
  alignas(64) std::array<int32_t, kBlock> first{};  // visible: first <= key <= last
  alignas(64) std::array<int32_t, kBlock> last{};

  int64_t groups() const { return (rows + kGroup - 1) / kGroup; }
  int64_t first_key() const { return all.first_min; }
  int64_t end_key() const { return all.last_max + 1; }
};

template <typename Task>
QueryBlock query_block(const Task& task, int64_t b, int64_t first_query) {
  QueryBlock block;
  block.rows = std::min(kBlock, task.shape.Q - first_query);
  for (int64_t row = 0; row < block.rows; ++row) {
    const KeyRange keys = visible_keys(task, b, first_query + row);
    block.first[static_cast<size_t>(row)] = static_cast<int32_t>(keys.first);
    block.last[static_cast<size_t>(row)] = static_cast<int32_t>(keys.end - 1);
    block.all.include(keys);
    block.of_group[static_cast<size_t>(row / kGroup)].include(keys);
  }
  return block;
}

// Rows of one head of one sequence, from row `first` on.
struct HeadRows {
  int64_t b = 0;
  int64_t h = 0;
  int64_t first = 0;

  template <typename Element, typename Tensor4>
  auto of(const Tensor4& tensor, int64_t row) const {
    return tensor.template begin<Element>() + b * tensor.strides[0] +
           (first + row) * tensor.strides[1] + h * tensor.strides[2];
  }
};

// The pair of `block` with keys [first_key, first_key + keys).
BlockPair pair_of(const QueryBlock& block, int64_t first_key, int64_t keys);

// Parts of a thread's scratch, one after the other, each aligned. Without memory it only counts.
class Scratch {
 public:
  explicit Scratch(std::byte* begin = nullptr) : begin_(begin) {}

  template <typename T>
  T* take(int64_t count) {
    std::byte* const at = begin_ == nullptr ? nullptr : begin_ + bytes_;
    bytes_ += align_up(count * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(at);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  int64_t bytes_ = 0;
};

// The forward pass: a tile is a chunk of queries of the heads that share one key/value head. Its
// keys and values are packed once, which pays from about 256 queries on.
struct ForwardTiles {
  explicit ForwardTiles(const AttentionShape& shape)
      : groups(shape.B * shape.G),
        chunk(std::max(kBlock, 256 / shape.heads_per_group() / kBlock * kBlock)),
        chunks((shape.Q + chunk - 1) / chunk) {}

  int64_t count() const { return groups * chunks; }
  int64_t group_of(int64_t tile) const { return tile % groups; }
  // The last chunks first: they see the most keys, and the threads end together on the short ones.
  int64_t first_query(int64_t tile) const { return (chunks - 1 - tile / groups) * chunk; }

  int64_t groups;  // sequences times key/value heads
  int64_t chunk;
  int64_t chunks;
};

}  // namespace cadre::kernels::cpu
