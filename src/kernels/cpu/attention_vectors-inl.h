// The vector routines that attention is made of, for one instruction set: a product of small
// matrices, a power of two, and the packing of rows. Included once per instruction set.

#if defined(CADRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CADRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H
#undef CADRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H
#else
#define CADRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/float_vectors-inl.h"

// Not for the emulated vectors of x86-64's baseline: they are no vectors.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

static_assert(kGroup % kLanes == 0);

// What fits the registers: AVX-512 and NEON have 32 of them, the others 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int64_t kVectorsMax = 4;
constexpr int64_t rows_max(int64_t vectors) {
  return vectors == 4 ? 6 : 8;
}
#else
constexpr int64_t kVectorsMax = 2;
constexpr int64_t rows_max(int64_t vectors) {
  return vectors == 2 ? 6 : 8;
}
#endif

// Sixteen, eight or four words of 32 bits: floats, or pairs of bf16.
template <typename Word>
HWY_INLINE Vector load_words(const Word* at) {
  return hn::BitCast(kFloats, hn::LoadU(hn::Rebind<Word, Floats>(), at));
}

template <typename Word>
HWY_INLINE Vector broadcast(const Word* at) {
  return hn::BitCast(kFloats, hn::Set(hn::Rebind<Word, Floats>(), *at));
}

//   c[row][...] (+)= sum over k < depth of a(row, k) * b[k][...]
//
// A word of a meets all lanes of a row of b. a(row, k) stands at a[row * a_row + k * a_step]; one
// of the two strides is 1. Words are what `Math` multiplies: floats, or pairs of bf16 whose two
// products are both added.
template <typename Word>
struct Product {
  float* c = nullptr;
  int64_t c_row = 0;
  const Word* a = nullptr;
  int64_t a_row = 0;
  int64_t a_step = 0;
  const Word* b = nullptr;
  int64_t b_step = 0;
  int64_t depth = 0;
  bool add = false;
};

// Loops over rows and vectors have constant bounds: every sum stays in a register.
template <typename Math, bool kRowsTouch, int64_t kRows, int64_t kVectors>
HWY_NOINLINE void multiply_tile(const Product<typename Math::Word>& x) {
  using Word = typename Math::Word;
  // Copies: the compiler must not think that a store could change them.
  float* const c = x.c;
  const int64_t c_row = x.c_row;
  Vector sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int64_t row = 0; row < kRows; ++row) {
    HWY_UNROLL(4)
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[row][v] = x.add ? hn::LoadU(kFloats, c + row * c_row + v * kLanes) : hn::Zero(kFloats);
    }
  }
  const Word* a = x.a;
  const Word* b = x.b;
  const int64_t a_row = kRowsTouch ? 1 : x.a_row;
  const int64_t a_step = kRowsTouch ? x.a_step : 1;
  for (int64_t k = 0; k < x.depth; ++k) {
    Vector line[kVectors];
    HWY_UNROLL(4)
    for (int64_t v = 0; v < kVectors; ++v) {
      line[v] = load_words(b + v * kLanes);
    }
    HWY_UNROLL(8)
    for (int64_t row = 0; row < kRows; ++row) {
      const Vector word = broadcast(a + row * a_row);
      HWY_UNROLL(4)
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[row][v] = Math::multiply_add(sums[row][v], word, line[v]);
      }
    }
    a += a_step;
    b += x.b_step;
  }
  HWY_UNROLL(8)
  for (int64_t row = 0; row < kRows; ++row) {
    HWY_UNROLL(4)
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[row][v], kFloats, c + row * c_row + v * kLanes);
    }
  }
}

template <typename Math, bool kRowsTouch, int64_t kRows, int64_t kVectors>
HWY_INLINE void multiply_rows(Product<typename Math::Word>& x, int64_t& rows) {
  while (rows >= kRows) {
    multiply_tile<Math, kRowsTouch, kRows, kVectors>(x);
    x.a += kRows * (kRowsTouch ? 1 : x.a_row);
    x.c += kRows * x.c_row;
    rows -= kRows;
  }
}

template <typename Math, bool kRowsTouch, int64_t kVectors>
HWY_INLINE void multiply_panel(Product<typename Math::Word> x, int64_t rows) {
  multiply_rows<Math, kRowsTouch, rows_max(kVectors), kVectors>(x, rows);
  multiply_rows<Math, kRowsTouch, 4, kVectors>(x, rows);
  multiply_rows<Math, kRowsTouch, 2, kVectors>(x, rows);
  multiply_rows<Math, kRowsTouch, 1, kVectors>(x, rows);
}

// A product of `rows` rows of `vectors` vectors. kRowsTouch: a_row is 1, otherwise a_step is.
template <typename Math, bool kRowsTouch>
void multiply(const Product<typename Math::Word>& product, int64_t rows, int64_t vectors) {
  Product<typename Math::Word> x = product;
  while (vectors > 0) {
    // Panels of about equal width: 5 vectors are 3 and 2, not 4 and 1.
    const int64_t panels = (vectors + kVectorsMax - 1) / kVectorsMax;
    const int64_t width = (vectors + panels - 1) / panels;
    if (width == 1) {
      multiply_panel<Math, kRowsTouch, 1>(x, rows);
    } else if (width == 2) {
      multiply_panel<Math, kRowsTouch, 2>(x, rows);
    }
    if constexpr (kVectorsMax == 4) {
      if (width == 3) {
        multiply_panel<Math, kRowsTouch, 3>(x, rows);
      } else if (width == 4) {
        multiply_panel<Math, kRowsTouch, 4>(x, rows);
      }
    }
    x.b += width * kLanes;
    x.c += width * kLanes;
    vectors -= width;
  }
}

// 2^x for x below 127; 0 for x up to -127, NaN for NaN. The polynomial is 1 + f q(f), minimax over
// [-1/2, 1/2]. Its relative error is 3e-9 with kExact and 4e-6 without, which is enough for what is
// rounded to bf16.
template <bool kExact>
HWY_INLINE Vector exp2(Vector x) {
  // Adding it rounds to an integer, which is then in the lowest bits.
  const Vector magic = hn::Set(kFloats, 0x1.8p23f);
  const auto c = [](float value) HWY_ATTR { return hn::Set(kFloats, value); };
  x = hn::Max(c(-127.0f), x);  // in this order a NaN stays
  const Vector shifted = hn::Add(x, magic);
  const Vector f = hn::Sub(x, hn::Sub(shifted, magic));
  const Vector scale = hn::BitCast(
      kFloats, hn::Add(hn::ShiftLeft<23>(hn::BitCast(kInts, shifted)), hn::Set(kInts, 0x3F800000)));
  Vector q;
  if constexpr (kExact) {
    q = hn::MulAdd(c(0x1.470b4ap-13f), f, c(0x1.5f7276p-10f));
    q = hn::MulAdd(q, f, c(0x1.3b270ep-7f));
    q = hn::MulAdd(q, f, c(0x1.c6ae72p-5f));
    q = hn::MulAdd(q, f, c(0x1.ebfbe2p-3f));
    q = hn::MulAdd(q, f, c(0x1.62e432p-1f));
  } else {
    q = hn::MulAdd(c(0x1.409104p-7f), f, c(0x1.ca9008p-5f));
    q = hn::MulAdd(q, f, c(0x1.ebf1b4p-3f));
    q = hn::MulAdd(q, f, c(0x1.62dfcap-1f));
  }
  return hn::MulAdd(hn::Mul(f, scale), q, scale);
}

// Rows of a head lie far apart, as those of other heads are between them: the processor does not
// guess the next.
constexpr int64_t kRowsAhead = 16;
template <typename Element>
HWY_INLINE void prefetch_row(const Element* row, int64_t D) {
  for (int64_t d = 0; d < D; d += 64 / static_cast<int64_t>(sizeof(Element))) {
    hwy::Prefetch(row + d);
  }
}

// Rows of D elements as floats, each padded with zeroes to `to_row` floats.
template <typename Element>
void widen_rows(float* to, int64_t to_row, const Element* from, int64_t from_row, int64_t rows,
                int64_t D) {
  for (int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) {
      prefetch_row(from + kRowsAhead * from_row, D);
    }
    for_each_vector(D, [&](auto tag, int64_t d)
                           HWY_ATTR { hn::StoreU(load_floats(tag, from + d), tag, to + d); });
    std::fill(to + D, to + to_row, 0.0f);
    from += from_row;
    to += to_row;
  }
}

// Asks for `rows` rows that will be needed soon: the processor fetches them while it computes.
template <typename Element>
void prefetch_rows(const Element* from, int64_t from_row, int64_t rows, int64_t D) {
  for (int64_t row = 0; row < rows; ++row) {
    prefetch_row(from + row * from_row, D);
  }
}

// Stores rows of floats, each times factor_of(row).
template <typename Element, typename Factor>
HWY_INLINE void store_rows(Element* to, int64_t to_row, const float* from, int64_t from_row,
                           int64_t rows, int64_t D, const Factor& factor_of) {
  for (int64_t row = 0; row < rows; ++row) {
    if (row + kRowsAhead < rows) {
      prefetch_row(to + kRowsAhead * to_row, D);
    }
    const float factor = factor_of(row);
    for_each_vector(D, [&](auto tag, int64_t d) HWY_ATTR {
      store_floats(hn::Mul(hn::LoadU(tag, from + d), hn::Set(tag, factor)), tag, to + d);
    });
    to += to_row;
    from += from_row;
  }
}

template <typename Element>
HWY_INLINE float dot(const Element* a, const Element* b, int64_t D) {
  Vector sum = hn::Zero(kFloats);
  int64_t d = 0;
  for (; d + kLanes <= D; d += kLanes) {
    sum = hn::MulAdd(load_floats(kFloats, a + d), load_floats(kFloats, b + d), sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(kFloats, sum));
  for (; d < D; ++d) {
    total += to_float(a[d]) * to_float(b[d]);
  }
  return total;
}

// Four words of each of kLanes rows, a row every fourth: the rows of one vector's 128-bit blocks.
HWY_INLINE Vector load_blocks(const float* from, int64_t row) {
  const hn::FixedTag<float, 4> block;
#if HWY_CAP_GE512
  const hn::FixedTag<float, 8> two;
  const auto lower = hn::Combine(two, hn::LoadU(block, from + 4 * row), hn::LoadU(block, from));
  const auto upper =
      hn::Combine(two, hn::LoadU(block, from + 12 * row), hn::LoadU(block, from + 8 * row));
  return hn::Combine(kFloats, upper, lower);
#elif HWY_CAP_GE256
  return hn::Combine(kFloats, hn::LoadU(block, from + 4 * row), hn::LoadU(block, from));
#else
  (void)row;
  return hn::LoadU(block, from);
#endif
}

// to[w][r] = from[r][w] for `rows` rows (a multiple of kGroup) and `words` words (a multiple of 4).
// Rows of `to` have kBlock words.
inline void transpose(float* to, const float* from, int64_t from_row, int64_t rows, int64_t words) {
  const hn::Repartition<double, Floats> pairs;
  for (int64_t r = 0; r < rows; r += kLanes) {
    for (int64_t w = 0; w < words; w += 4) {
      const float* const at = from + r * from_row + w;
      const Vector v0 = load_blocks(at, from_row);
      const Vector v1 = load_blocks(at + from_row, from_row);
      const Vector v2 = load_blocks(at + 2 * from_row, from_row);
      const Vector v3 = load_blocks(at + 3 * from_row, from_row);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(kFloats, v0, v1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(kFloats, v2, v3));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, v0, v1));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, v2, v3));
      float* const out = to + w * kBlock + r;
      hn::StoreU(hn::BitCast(kFloats, hn::InterleaveLower(pairs, low01, low23)), kFloats, out);
      hn::StoreU(hn::BitCast(kFloats, hn::InterleaveUpper(pairs, low01, low23)), kFloats,
                 out + kBlock);
      hn::StoreU(hn::BitCast(kFloats, hn::InterleaveLower(pairs, high01, high23)), kFloats,
                 out + 2 * kBlock);
      hn::StoreU(hn::BitCast(kFloats, hn::InterleaveUpper(pairs, high01, high23)), kFloats,
                 out + 3 * kBlock);
    }
  }
}

// Floats as the words of a product. What a product of bf16 pairs needs in two formats (pairs along
// a row, and pairs of rows) is one here.
template <typename Of>
struct FloatMath {
  using Element = Of;
  using Word = float;
  static constexpr int64_t kPerWord = 1;
  static constexpr bool kExact = true;

  static HWY_INLINE Vector multiply_add(Vector sum, Vector a, Vector b) {
    return hn::MulAdd(a, b, sum);
  }
  static void pack_rows(Word* to, int64_t width, const Element* from, int64_t from_row,
                        int64_t rows, int64_t D) {
    widen_rows(to, width, from, from_row, rows, D);
  }
  static void pack_pairs(Word* to, int64_t width, const Element* from, int64_t from_row,
                         int64_t rows, int64_t D) {
    widen_rows(to, width, from, from_row, rows, D);
  }
  static void pair_rows(Word*, const Word*, int64_t, int64_t) {}
  // One row of a matrix of weights, and rows 2i and 2i + 1 of one.
  static HWY_INLINE void store_weights(Word* to, Vector row) { hn::StoreU(row, kFloats, to); }
  static HWY_INLINE void store_pair(Word* to, Vector even, Vector odd) {
    hn::StoreU(even, kFloats, to);
    hn::StoreU(odd, kFloats, to + kBlock);
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
