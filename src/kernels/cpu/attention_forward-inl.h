// The forward pass for one instruction set; see attention_plan.h for how it is cut.

#if defined(CADRE_KERNELS_CPU_ATTENTION_FORWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_ATTENTION_FORWARD_INL_H
#undef CADRE_KERNELS_CPU_ATTENTION_FORWARD_INL_H
#else
#define CADRE_KERNELS_CPU_ATTENTION_FORWARD_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/cpu/attention_dropout-inl.h"
#include "kernels/cpu/attention_vectors-inl.h"

// Not for the emulated vectors of x86-64's baseline: they are no vectors.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;
// Where a row's maximum begins: below every score, yet finite, so that a block of keys that are all
// masked (scores of minus infinity) gives weights of 0 and not NaN.
constexpr float kNoMaximum = -1e30f;
// Weights are relative to the largest score so far, or to one that is smaller by a factor of at
// most 2^8: so the sums are rarely rescaled.
constexpr float kRaise = 8.0f;

// Where a thread keeps a tile's keys and values, and a query block's intermediate results.
template <typename Math>
struct ForwardScratch {
  using Word = typename Math::Word;

  ForwardScratch(const AttentionShape& shape, std::byte* begin)
      : width(padded(shape.D)), words(width / Math::kPerWord), space(begin) {
    const int64_t keys = (shape.K + kBlock - 1) / kBlock * kBlock;
    k = space.take<Word>(keys * words);
    v = space.take<Word>(keys / Math::kPerWord * width);
    q = space.take<Word>(kBlock * words);
    q_across = space.take<Word>(kBlock * words);
    scores = space.take<float>(kBlock * kBlock);
    // Floats are written over the scores that they come from.
    weights = Math::kPerWord == 1 ? reinterpret_cast<Word*>(scores)
                                  : space.take<Word>(kBlock * kBlock / Math::kPerWord);
    o = space.take<float>(kBlock * width);
    maximum = space.take<float>(kBlock);
    sum = space.take<float>(kBlock);
    factor = space.take<float>(kBlock);
  }

  int64_t width;  // of a row of D elements with its padding
  int64_t words;  // of such a row
  Scratch space;
  Word* k;         // [key][words]
  Word* v;         // [key / kPerWord][width]: pairs of keys
  Word* q;         // [query][words]
  Word* q_across;  // [words][query]
  float* scores;   // [key][query]
  Word* weights;   // [key / kPerWord][query]
  float* o;        // [query][width]: not yet divided by `sum`
  float* maximum;  // what weights are relative to, before scaling
  float* sum;      // of weights
  float* factor;
};

// Sets scores of keys that a query does not see to minus infinity.
HWY_INLINE Vector masked(Vector score, int64_t key, hn::Vec<Ints> first, hn::Vec<Ints> last) {
  const auto keys = hn::Set(kInts, static_cast<int32_t>(key));
  const auto hidden = hn::RebindMask(kFloats, hn::Or(hn::Lt(keys, first), hn::Gt(keys, last)));
  return hn::IfThenElse(hidden, hn::Set(kFloats, -std::numeric_limits<float>::infinity()), score);
}

// The largest score of each of kLanes queries over the keys of a pair of blocks; masks them first.
inline Vector largest_scores(float* scores, int64_t lane, const QueryBlock& block,
                             const BlockPair& pair, int64_t first_key) {
  const int64_t group = lane / kGroup;
  const auto first = hn::LoadU(kInts, block.first.data() + lane);
  const auto last = hn::LoadU(kInts, block.last.data() + lane);
  // Two at a time: one comparison need not wait for the other.
  Vector even = hn::Set(kFloats, kNoMaximum);
  Vector odd = even;
  for (int64_t r = 0; r < pair.runs; ++r) {
    const KeyRun& run = pair.run[static_cast<size_t>(r)];
    if (!run.has(group)) {
      continue;
    }
    float* at = scores + run.first * kBlock + lane;
    int64_t key = run.first;
    if (run.masked[static_cast<size_t>(group)]) {
      for (; key < run.end; ++key, at += kBlock) {
        const Vector score = masked(hn::LoadU(kFloats, at), first_key + key, first, last);
        hn::StoreU(score, kFloats, at);
        even = hn::Max(even, score);
      }
      continue;
    }
    for (; key + 2 <= run.end; key += 2, at += 2 * kBlock) {
      even = hn::Max(even, hn::LoadU(kFloats, at));
      odd = hn::Max(odd, hn::LoadU(kFloats, at + kBlock));
    }
    if (key < run.end) {
      even = hn::Max(even, hn::LoadU(kFloats, at));
    }
  }
  return hn::Max(even, odd);
}

// Turns scores into weights exp2(scale score - shift) and returns the sum of each query's. Weights
// of keys that are dropped are stored as 0; the sums know nothing of it.
template <typename Math, typename Keys>
inline Vector weights_of(const ForwardScratch<Math>& scratch, int64_t lane, const BlockPair& pair,
                         int64_t first_key, Vector scale, Vector shift, Keys keys) {
  const int64_t group = lane / kGroup;
  Vector even = hn::Zero(kFloats);
  Vector odd = even;
  for (int64_t r = 0; r < pair.runs; ++r) {
    const KeyRun& run = pair.run[static_cast<size_t>(r)];
    if (!run.has(group)) {
      continue;
    }
    for (int64_t key = run.first; key < run.end; key += 2) {
      if (key % 4 == 0) {
        keys.begin(first_key + key);
      }
      const float* const score = scratch.scores + key * kBlock + lane;
      const Vector p0 = exp2<Math::kExact>(hn::MulSub(hn::LoadU(kFloats, score), scale, shift));
      Vector p1 = hn::Zero(kFloats);
      if (key + 1 < run.end) {
        p1 = exp2<Math::kExact>(hn::MulSub(hn::LoadU(kFloats, score + kBlock), scale, shift));
      }
      even = hn::Add(even, p0);
      odd = hn::Add(odd, p1);
      Math::store_pair(scratch.weights + key / Math::kPerWord * kBlock + lane, keys.keep(p0, key),
                       keys.keep(p1, key + 1));
    }
  }
  return hn::Add(even, odd);
}

// Apart, so that random numbers take no registers from the usual case.
template <typename Math>
HWY_NOINLINE Vector kept_weights_of(const ForwardScratch<Math>& scratch, int64_t lane,
                                    const BlockPair& pair, int64_t first_key, Vector scale,
                                    Vector shift, const BlockDropout& dropout) {
  return weights_of(scratch, lane, pair, first_key, scale, shift, KeptKeys(dropout, lane));
}

// The online softmax of one pair of blocks. Returns whether rows of o must be scaled by `factor`.
template <typename Math>
bool soften(const ForwardScratch<Math>& scratch, const QueryBlock& block, const BlockPair& pair,
            int64_t first_key, float scale, const std::optional<BlockDropout>& dropout) {
  const Vector factor = hn::Set(kFloats, scale);
  bool rescale = false;
  const int64_t first_lane = pair.query_run[0].first;
  const int64_t end_lane = padded(pair.query_run[static_cast<size_t>(pair.query_runs - 1)].end);
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    if (lane < first_lane || lane >= end_lane) {
      hn::StoreU(hn::Set(kFloats, 1.0f), kFloats, scratch.factor + lane);
      continue;
    }
    const Vector largest = largest_scores(scratch.scores, lane, block, pair, first_key);
    const Vector before = hn::LoadU(kFloats, scratch.maximum + lane);
    const auto rises = hn::Gt(hn::Mul(hn::Sub(largest, before), factor), hn::Set(kFloats, kRaise));
    const Vector maximum = hn::IfThenElse(rises, largest, before);
    const Vector shift = hn::Mul(maximum, factor);
    // Subtracted before it is scaled: exactly 1 where nothing has risen. (A fused product would
    // leave the rounding of `shift`, which is huge while a row has seen no key.)
    const Vector decay = exp2<true>(hn::Mul(hn::Sub(before, maximum), factor));
    const Vector sum =
        dropout ? kept_weights_of(scratch, lane, pair, first_key, factor, shift, *dropout)
                : weights_of(scratch, lane, pair, first_key, factor, shift, AllKeys());
    hn::StoreU(maximum, kFloats, scratch.maximum + lane);
    hn::StoreU(decay, kFloats, scratch.factor + lane);
    hn::StoreU(hn::MulAdd(hn::LoadU(kFloats, scratch.sum + lane), decay, sum), kFloats,
               scratch.sum + lane);
    rescale = rescale || !hn::AllFalse(kFloats, rises);
  }
  return rescale;
}

inline void scale_rows(float* rows, int64_t width, const float* factors, int64_t count) {
  for (int64_t row = 0; row < count; ++row) {
    const Vector factor = hn::Set(kFloats, factors[row]);
    for (int64_t d = 0; d < width; d += kLanes) {
      float* const at = rows + row * width + d;
      hn::StoreU(hn::Mul(hn::LoadU(kFloats, at), factor), kFloats, at);
    }
  }
}

// o += weights v for one pair of blocks; `v` are the values of its keys.
template <typename Math>
void add_values(const ForwardScratch<Math>& scratch, const BlockPair& pair,
                const typename Math::Word* v, int64_t D) {
  for (int64_t r = 0; r < pair.query_runs; ++r) {
    const QueryRun& run = pair.query_run[static_cast<size_t>(r)];
    const int64_t first = run.first_key / Math::kPerWord;
    const int64_t end = (run.end_key + Math::kPerWord - 1) / Math::kPerWord;
    multiply<Math, true>({.c = scratch.o + run.first * scratch.width,
                          .c_row = scratch.width,
                          .a = scratch.weights + first * kBlock + run.first,
                          .a_row = 1,
                          .a_step = kBlock,
                          .b = v + first * scratch.width,
                          .b_step = scratch.width,
                          .depth = end - first,
                          .add = true},
                         run.end - run.first, (D + kLanes - 1) / kLanes);
  }
}

// Divides o by the sums, makes up for what was dropped, and stores both results.
template <typename Math>
void finish(const AttentionForwardTask& task, const ForwardScratch<Math>& scratch,
            const QueryBlock& block, const HeadRows& rows) {
  using Element = typename Math::Element;
  float* const lse = task.lse_BHQ.begin<float>() + rows.b * task.lse_BHQ.strides[0] +
                     rows.h * task.lse_BHQ.strides[1] + rows.first;
  const Vector scale = hn::Set(kFloats, task.options.scale);
  const Vector kept = hn::Set(kFloats, dropout_scale(task.options));
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    const Vector sum = hn::LoadU(kFloats, scratch.sum + lane);
    const Vector maximum = hn::LoadU(kFloats, scratch.maximum + lane);
    hn::StoreU(hn::Div(kept, sum), kFloats, scratch.factor + lane);
    const Vector log_sum = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(kFloats, sum));
    hn::StoreU(hn::MulAdd(maximum, scale, log_sum), kFloats, scratch.maximum + lane);
  }
  store_rows(rows.of<Element>(task.o_BQHD, 0), task.o_BQHD.strides[1], scratch.o, scratch.width,
             block.rows, task.shape.D, [&](int64_t row) { return scratch.factor[row]; });
  std::copy_n(scratch.maximum, block.rows, lse);
}

template <typename Math>
void forward_block(const AttentionForwardTask& task, const ForwardScratch<Math>& scratch,
                   const HeadRows& rows, int64_t first_packed_key) {
  using Element = typename Math::Element;
  const int64_t D = task.shape.D;
  const QueryBlock block = query_block(task, rows.b, rows.first);
  const std::optional<BlockDropout> dropout = dropout_of(task, rows, block.rows);
  const int64_t lanes = block.groups() * kGroup;
  Math::pack_rows(scratch.q, scratch.width, rows.of<Element>(task.q_BQHD, 0),
                  task.q_BQHD.strides[1], block.rows, D);
  std::memset(static_cast<void*>(scratch.q + block.rows * scratch.words), 0,
              static_cast<size_t>((lanes - block.rows) * scratch.words) * sizeof(*scratch.q));
  transpose(reinterpret_cast<float*>(scratch.q_across), reinterpret_cast<float*>(scratch.q),
            scratch.words, lanes, scratch.words);
  // The next block's queries.
  const int64_t next = std::clamp<int64_t>(task.shape.Q - rows.first - kBlock, 0, kBlock);
  prefetch_rows(rows.of<Element>(task.q_BQHD, kBlock), task.q_BQHD.strides[1], next, D);
  std::fill_n(scratch.o, kBlock * scratch.width, 0.0f);
  std::fill_n(scratch.maximum, kBlock, kNoMaximum);
  std::fill_n(scratch.sum, kBlock, 0.0f);

  const int64_t first_block = block.first_key() / kBlock * kBlock;
  for (int64_t key = first_block; key < block.end_key(); key += kBlock) {
    const BlockPair pair = pair_of(block, key, std::min(kBlock, block.end_key() - key));
    if (pair.runs == 0) {
      continue;
    }
    const int64_t packed_key = key - first_packed_key;
    for (int64_t r = 0; r < pair.runs; ++r) {
      const KeyRun& run = pair.run[static_cast<size_t>(r)];
      multiply<Math, false>({.c = scratch.scores + run.first * kBlock + run.first_group * kGroup,
                             .c_row = kBlock,
                             .a = scratch.k + (packed_key + run.first) * scratch.words,
                             .a_row = scratch.words,
                             .a_step = 1,
                             .b = scratch.q_across + run.first_group * kGroup,
                             .b_step = kBlock,
                             .depth = (D + Math::kPerWord - 1) / Math::kPerWord,
                             .add = false},
                            run.end - run.first,
                            (run.end_group - run.first_group) * kGroup / kLanes);
    }
    if (soften(scratch, block, pair, key, task.options.scale * kLog2E, dropout) &&
        key > first_block) {
      scale_rows(scratch.o, scratch.width, scratch.factor, block.rows);
    }
    add_values(scratch, pair, scratch.v + packed_key / Math::kPerWord * scratch.width, D);
  }
  finish(task, scratch, block, rows);
}

template <typename Math>
void forward_tile(const AttentionForwardTask& task, int64_t tile, std::byte* memory) {
  using Element = typename Math::Element;
  const AttentionShape& shape = task.shape;
  const ForwardTiles tiles(shape);
  const ForwardScratch<Math> scratch(shape, memory);
  const int64_t b = tiles.group_of(tile) / shape.G;
  const int64_t g = tiles.group_of(tile) % shape.G;
  const int64_t begin = tiles.first_query(tile);
  const int64_t end = std::min(shape.Q, begin + tiles.chunk);
  int64_t first_key = shape.K;
  int64_t end_key = 0;
  for (int64_t i = begin; i < end; ++i) {
    const KeyRange keys = visible_keys(task, b, i);
    first_key = std::min(first_key, keys.first);
    end_key = std::max(end_key, keys.end);
  }
  first_key = first_key / kBlock * kBlock;
  const HeadRows keys{.b = b, .h = g, .first = first_key};
  Math::pack_rows(scratch.k, scratch.width, keys.of<Element>(task.k_BKGD, 0),
                  task.k_BKGD.strides[1], end_key - first_key, shape.D);
  Math::pack_pairs(scratch.v, scratch.width, keys.of<Element>(task.v_BKGD, 0),
                   task.v_BKGD.strides[1], end_key - first_key, shape.D);
  const int64_t heads = shape.heads_per_group();
  for (int64_t h = g * heads; h < (g + 1) * heads; ++h) {
    for (int64_t i = begin; i < end; i += kBlock) {
      forward_block<Math>(task, scratch, {.b = b, .h = h, .first = i}, first_key);
    }
  }
}

template <typename Math>
int64_t forward_bytes_per_thread(const AttentionShape& shape) {
  return ForwardScratch<Math>(shape, nullptr).space.bytes();
}

template <typename Math>
int64_t plan_forward_bytes(const AttentionShape& shape, int threads) {
  return threads * forward_bytes_per_thread<Math>(shape);
}

template <typename Math>
void forward(Context& context, const AttentionForwardTask& task, std::byte* workspace) {
  const int64_t bytes = forward_bytes_per_thread<Math>(task.shape);
  context.threads.run(ForwardTiles(task.shape).count(), [&](int64_t tile, int thread) {
    forward_tile<Math>(task, tile, workspace + thread * bytes);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
