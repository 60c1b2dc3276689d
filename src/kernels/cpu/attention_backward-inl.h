// The backward pass for one instruction set; see attention_plan.h for how it is cut.

#if defined(CADRE_KERNELS_CPU_ATTENTION_BACKWARD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_ATTENTION_BACKWARD_INL_H
#undef CADRE_KERNELS_CPU_ATTENTION_BACKWARD_INL_H
#else
#define CADRE_KERNELS_CPU_ATTENTION_BACKWARD_INL_H
#endif

#include "kernels/cpu/attention_dropout-inl.h"
#include "kernels/cpu/attention_forward-inl.h"
#include "kernels/cpu/attention_vectors-inl.h"

// Not for the emulated vectors of x86-64's baseline: they are no vectors.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

// Where a thread keeps a tile's keys, values and sums of gradients, and a query block's rows. Where
// words are floats, formats that differ for pairs are one.
template <typename Math>
struct BackwardScratch {
  using Word = typename Math::Word;
  static constexpr int64_t kPerWord = Math::kPerWord;

  BackwardScratch(const AttentionShape& shape, std::byte* begin)
      : width(padded(shape.D)), words(width / kPerWord), space(begin) {
    const int64_t keys = (shape.K + kBlock - 1) / kBlock * kBlock;
    k = space.take<Word>(keys * words);
    v = space.take<Word>(keys * words);
    dk = space.take<float>(keys * width);
    dv = space.take<float>(keys * width);
    q = space.take<Word>(kBlock * words);
    dout = space.take<Word>(kBlock * words);
    q_across = space.take<Word>(kBlock * words);
    dout_across = space.take<Word>(kBlock * words);
    scores = space.take<float>(kBlock * kBlock);
    dweights = space.take<float>(kBlock * kBlock);
    dq = space.take<float>(kBlock * width);
    lse = space.take<float>(kBlock);
    delta = space.take<float>(kBlock);
    if constexpr (kPerWord == 1) {
      k_pairs = k;
      q_pairs = q;
      dout_pairs = dout;
      weights = scores;
      dscores = dweights;
      dscores_pairs = dweights;
    } else {
      k_pairs = space.take<Word>(keys * words);
      q_pairs = space.take<Word>(kBlock * words);
      dout_pairs = space.take<Word>(kBlock * words);
      weights = space.take<Word>(kBlock * kBlock / kPerWord);
      dscores = space.take<Word>(kBlock * kBlock / kPerWord);
      dscores_pairs = space.take<Word>(kBlock * kBlock / kPerWord);
    }
  }

  int64_t width;  // of a row of D elements with its padding
  int64_t words;  // of such a row
  Scratch space;
  Word* k;              // [key][words]
  Word* v;              // [key][words]
  Word* k_pairs;        // [key / kPerWord][width]
  float* dk;            // [key][width]
  float* dv;            // [key][width]
  Word* q;              // [query][words]
  Word* dout;           // [query][words]
  Word* q_across;       // [words][query]
  Word* dout_across;    // [words][query]
  Word* q_pairs;        // [query / kPerWord][width]
  Word* dout_pairs;     // [query / kPerWord][width]
  float* scores;        // [key][query]
  float* dweights;      // [key][query]
  Word* weights;        // [key][query / kPerWord]
  Word* dscores;        // [key][query / kPerWord]
  Word* dscores_pairs;  // [key / kPerWord][query]
  float* dq;            // [query][width]
  float* lse;           // [query]: as a logarithm of base 2
  float* delta;         // [query]
};

// What one vector of queries needs to know of itself.
struct BackwardLanes {
  Vector scale;
  Vector lse;
  Vector delta;
  Vector kept;  // what gradients of kept probabilities are multiplied by
  hn::Vec<Ints> first;
  hn::Vec<Ints> last;
};

template <typename Math, bool kMasked>
HWY_INLINE Vector weight_of(const BackwardLanes& x, const float* score, int64_t key) {
  Vector value = hn::LoadU(kFloats, score);
  if constexpr (kMasked) {
    value = masked(value, key, x.first, x.last);
  }
  return exp2<Math::kExact>(hn::MulSub(value, x.scale, x.lse));
}

// The gradient of a score, from its weight and the gradient of what is left of that.
template <typename Keys>
HWY_INLINE Vector score_gradient(const BackwardLanes& x, Vector weight, const float* dweight,
                                 const Keys& keys, int64_t key) {
  Vector value = hn::LoadU(kFloats, dweight);
  if constexpr (Keys::kDrops) {
    value = keys.keep(hn::Mul(value, x.kept), key);
  }
  return hn::Mul(weight, hn::Sub(value, x.delta));
}

// Scores to weights, and gradients of weights to gradients of scores, over the keys of a run.
template <typename Math, bool kMasked, typename Keys>
void differentiate(const BackwardScratch<Math>& scratch, const BackwardLanes& x, int64_t lane,
                   const KeyRun& run, int64_t first_key, Keys keys) {
  constexpr int64_t kRow = kBlock / Math::kPerWord;
  for (int64_t key = run.first; key < run.end; key += 2) {
    if (key % 4 == 0) {
      keys.begin(first_key + key);
    }
    const int64_t at = key * kBlock + lane;
    const Vector p0 = weight_of<Math, kMasked>(x, scratch.scores + at, first_key + key);
    const Vector ds0 = score_gradient(x, p0, scratch.dweights + at, keys, key);
    Math::store_weights(scratch.weights + key * kRow + lane / Math::kPerWord, keys.keep(p0, key));
    Vector ds1 = hn::Zero(kFloats);
    if (key + 1 < run.end) {
      const Vector p1 =
          weight_of<Math, kMasked>(x, scratch.scores + at + kBlock, first_key + key + 1);
      ds1 = score_gradient(x, p1, scratch.dweights + at + kBlock, keys, key + 1);
      Math::store_weights(scratch.weights + (key + 1) * kRow + lane / Math::kPerWord,
                          keys.keep(p1, key + 1));
    }
    Math::store_pair(scratch.dscores_pairs + key / Math::kPerWord * kBlock + lane, ds0, ds1);
    if constexpr (Math::kPerWord > 1) {
      Math::store_weights(scratch.dscores + key * kRow + lane / Math::kPerWord, ds0);
      if (key + 1 < run.end) {
        Math::store_weights(scratch.dscores + (key + 1) * kRow + lane / Math::kPerWord, ds1);
      }
    }
  }
}

template <typename Math, typename Keys>
HWY_INLINE void differentiate_run(const BackwardScratch<Math>& scratch, const BackwardLanes& x,
                                  int64_t lane, const KeyRun& run, int64_t first_key,
                                  const Keys& keys) {
  if (run.masked[static_cast<size_t>(lane / kGroup)]) {
    differentiate<Math, true>(scratch, x, lane, run, first_key, keys);
  } else {
    differentiate<Math, false>(scratch, x, lane, run, first_key, keys);
  }
}

template <typename Math>
void differentiate_pair(const BackwardScratch<Math>& scratch, const QueryBlock& block,
                        const KeyRun& run, int64_t first_key, float scale,
                        const std::optional<BlockDropout>& dropout) {
  for (int64_t lane = run.first_group * kGroup; lane < run.end_group * kGroup; lane += kLanes) {
    const BackwardLanes x{.scale = hn::Set(kFloats, scale),
                          .lse = hn::LoadU(kFloats, scratch.lse + lane),
                          .delta = hn::LoadU(kFloats, scratch.delta + lane),
                          .kept = hn::Set(kFloats, dropout ? dropout->scale : 1.0f),
                          .first = hn::LoadU(kInts, block.first.data() + lane),
                          .last = hn::LoadU(kInts, block.last.data() + lane)};
    if (dropout) {
      differentiate_run(scratch, x, lane, run, first_key, KeptKeys(*dropout, lane));
    } else {
      differentiate_run(scratch, x, lane, run, first_key, AllKeys());
    }
  }
}

// [key][query] = keys (or values) of a run times queries (or gradients of outputs).
template <typename Math>
void multiply_keys(const BackwardScratch<Math>& scratch, const KeyRun& run, float* to,
                   const typename Math::Word* keys, const typename Math::Word* queries, int64_t D) {
  multiply<Math, false>({.c = to + run.first * kBlock + run.first_group * kGroup,
                         .c_row = kBlock,
                         .a = keys + run.first * scratch.words,
                         .a_row = scratch.words,
                         .a_step = 1,
                         .b = queries + run.first_group * kGroup,
                         .b_step = kBlock,
                         .depth = (D + Math::kPerWord - 1) / Math::kPerWord,
                         .add = false},
                        run.end - run.first, (run.end_group - run.first_group) * kGroup / kLanes);
}

// Gradients of keys (or values) += gradients of scores (or weights) times queries (or of outputs).
template <typename Math>
void add_to_keys(const BackwardScratch<Math>& scratch, const KeyRun& run, float* to,
                 const typename Math::Word* factors, const typename Math::Word* queries,
                 int64_t D) {
  constexpr int64_t kRow = kBlock / Math::kPerWord;
  const int64_t first = run.first_group * kGroup / Math::kPerWord;
  multiply<Math, false>({.c = to + run.first * scratch.width,
                         .c_row = scratch.width,
                         .a = factors + run.first * kRow + first,
                         .a_row = kRow,
                         .a_step = 1,
                         .b = queries + first * scratch.width,
                         .b_step = scratch.width,
                         .depth = (run.end_group - run.first_group) * kGroup / Math::kPerWord,
                         .add = true},
                        run.end - run.first, (D + kLanes - 1) / kLanes);
}

template <typename Math>
void add_to_queries(const BackwardScratch<Math>& scratch, const BlockPair& pair,
                    const typename Math::Word* keys, int64_t D) {
  for (int64_t r = 0; r < pair.query_runs; ++r) {
    const QueryRun& run = pair.query_run[static_cast<size_t>(r)];
    const int64_t first = run.first_key / Math::kPerWord;
    const int64_t end = (run.end_key + Math::kPerWord - 1) / Math::kPerWord;
    multiply<Math, true>({.c = scratch.dq + run.first * scratch.width,
                          .c_row = scratch.width,
                          .a = scratch.dscores_pairs + first * kBlock + run.first,
                          .a_row = 1,
                          .a_step = kBlock,
                          .b = keys + first * scratch.width,
                          .b_step = scratch.width,
                          .depth = end - first,
                          .add = true},
                         run.end - run.first, (D + kLanes - 1) / kLanes);
  }
}

// Packs what a query block reads in the formats that its products take it in.
template <typename Math>
void load_queries(const AttentionBackwardTask& task, const BackwardScratch<Math>& scratch,
                  const QueryBlock& block, const HeadRows& rows) {
  using Element = typename Math::Element;
  const int64_t D = task.shape.D;
  const int64_t lanes = block.groups() * kGroup;
  const auto load = [&](const ConstTensor& from, auto* to, auto* across, auto* pairs) {
    Math::pack_rows(to, scratch.width, rows.of<Element>(from, 0), from.strides[1], block.rows, D);
    std::memset(static_cast<void*>(to + block.rows * scratch.words), 0,
                static_cast<size_t>((lanes - block.rows) * scratch.words) * sizeof(*to));
    transpose(reinterpret_cast<float*>(across), reinterpret_cast<const float*>(to), scratch.words,
              lanes, scratch.words);
    Math::pair_rows(pairs, to, scratch.width, lanes);
  };
  load(task.q_BQHD, scratch.q, scratch.q_across, scratch.q_pairs);
  load(task.do_BQHD, scratch.dout, scratch.dout_across, scratch.dout_pairs);
  const float* const lse = task.lse_BHQ.begin<float>() + rows.b * task.lse_BHQ.strides[0] +
                           rows.h * task.lse_BHQ.strides[1] + rows.first;
  const Element* dout = rows.of<Element>(task.do_BQHD, 0);
  const Element* o = rows.of<Element>(task.o_BQHD, 0);
  const int64_t dout_row = task.do_BQHD.strides[1];
  const int64_t o_row = task.o_BQHD.strides[1];
  for (int64_t row = 0; row < block.rows; ++row) {
    scratch.lse[row] = lse[row] * kLog2E;
    scratch.delta[row] = dot(dout + row * dout_row, o + row * o_row, D);
  }
  std::fill(scratch.lse + block.rows, scratch.lse + lanes, 0.0f);
  std::fill(scratch.delta + block.rows, scratch.delta + lanes, 0.0f);
}

// Asks for the rows of a query block.
template <typename Math>
void prefetch_queries(const AttentionBackwardTask& task, const HeadRows& rows) {
  const int64_t count = std::clamp<int64_t>(task.shape.Q - rows.first, 0, kBlock);
  for (const ConstTensor* from : {&task.q_BQHD, &task.do_BQHD, &task.o_BQHD}) {
    prefetch_rows(rows.of<typename Math::Element>(*from, 0), from->strides[1], count, task.shape.D);
  }
}

template <typename Math>
void backward_block(const AttentionBackwardTask& task, const BackwardScratch<Math>& scratch,
                    const HeadRows& rows) {
  const int64_t D = task.shape.D;
  const QueryBlock block = query_block(task, rows.b, rows.first);
  const std::optional<BlockDropout> dropout = dropout_of(task, rows, block.rows);
  load_queries(task, scratch, block, rows);
  prefetch_queries<Math>(task, {.b = rows.b, .h = rows.h, .first = rows.first + kBlock});
  std::fill_n(scratch.dq, kBlock * scratch.width, 0.0f);
  for (int64_t key = block.first_key() / kBlock * kBlock; key < block.end_key(); key += kBlock) {
    const BlockPair pair = pair_of(block, key, std::min(kBlock, block.end_key() - key));
    const int64_t words = key * scratch.words;
    for (int64_t r = 0; r < pair.runs; ++r) {
      const KeyRun& run = pair.run[static_cast<size_t>(r)];
      multiply_keys(scratch, run, scratch.scores, scratch.k + words, scratch.q_across, D);
      multiply_keys(scratch, run, scratch.dweights, scratch.v + words, scratch.dout_across, D);
      differentiate_pair(scratch, block, run, key, task.options.scale * kLog2E, dropout);
      const int64_t floats = key * scratch.width;
      add_to_keys(scratch, run, scratch.dv + floats, scratch.weights, scratch.dout_pairs, D);
      add_to_keys(scratch, run, scratch.dk + floats, scratch.dscores, scratch.q_pairs, D);
    }
    add_to_queries(scratch, pair, scratch.k_pairs + words, D);
  }
  store_rows(rows.of<typename Math::Element>(task.dq_BQHD, 0), task.dq_BQHD.strides[1], scratch.dq,
             scratch.width, block.rows, D, [&](int64_t) { return task.options.scale; });
}

// A tile is a key/value head of a sequence: all that adds to the same rows of dk and dv.
template <typename Math>
void backward_tile(const AttentionBackwardTask& task, int64_t tile, std::byte* memory) {
  using Element = typename Math::Element;
  const AttentionShape& shape = task.shape;
  const BackwardScratch<Math> scratch(shape, memory);
  const HeadRows keys{.b = tile / shape.G, .h = tile % shape.G, .first = 0};
  const int64_t heads = shape.heads_per_group();
  prefetch_queries<Math>(task, {.b = keys.b, .h = keys.h * heads, .first = 0});
  Math::pack_rows(scratch.k, scratch.width, keys.of<Element>(task.k_BKGD, 0),
                  task.k_BKGD.strides[1], shape.K, shape.D);
  Math::pack_rows(scratch.v, scratch.width, keys.of<Element>(task.v_BKGD, 0),
                  task.v_BKGD.strides[1], shape.K, shape.D);
  std::memset(static_cast<void*>(scratch.k + shape.K * scratch.words), 0,
              static_cast<size_t>(shape.K % Math::kPerWord * scratch.words) * sizeof(*scratch.k));
  Math::pair_rows(scratch.k_pairs, scratch.k, scratch.width, shape.K + shape.K % Math::kPerWord);
  std::fill_n(scratch.dk, shape.K * scratch.width, 0.0f);
  std::fill_n(scratch.dv, shape.K * scratch.width, 0.0f);

  for (int64_t h = keys.h * heads; h < (keys.h + 1) * heads; ++h) {
    for (int64_t i = 0; i < shape.Q; i += kBlock) {
      backward_block<Math>(task, scratch, {.b = keys.b, .h = h, .first = i});
    }
  }
  store_rows(keys.of<Element>(task.dk_BKGD, 0), task.dk_BKGD.strides[1], scratch.dk, scratch.width,
             shape.K, shape.D, [&](int64_t) { return task.options.scale; });
  store_rows(keys.of<Element>(task.dv_BKGD, 0), task.dv_BKGD.strides[1], scratch.dv, scratch.width,
             shape.K, shape.D, [&](int64_t) { return dropout_scale(task.options); });
}

template <typename Math>
int64_t backward_bytes_per_thread(const AttentionShape& shape) {
  return BackwardScratch<Math>(shape, nullptr).space.bytes();
}

template <typename Math>
int64_t plan_backward_bytes(const AttentionShape& shape, int threads) {
  return threads * backward_bytes_per_thread<Math>(shape);
}

template <typename Math>
void backward(Context& context, const AttentionBackwardTask& task, std::byte* workspace) {
  const int64_t bytes = backward_bytes_per_thread<Math>(task.shape);
  context.threads.run(task.shape.B * task.shape.G, [&](int64_t tile, int thread) {
    backward_tile<Math>(task, tile, workspace + thread * bytes);
  });
}

// Both passes, as a table.
template <typename Math>
constexpr AttentionBackend backend_of(Target target) {
  return {.target = target,
          .dtype = kDTypeOf<typename Math::Element>,
          .plan_forward_bytes = plan_forward_bytes<Math>,
          .plan_backward_bytes = plan_backward_bytes<Math>,
          .forward = forward<Math>,
          .backward = backward<Math>};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
