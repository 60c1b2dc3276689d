// Panel kernels in portable vectors, compiled once per instruction set. Loops over rows are written
// so that the compiler can keep every accumulator in a register: their bounds are constants.

// Vectors whose width is not known when compiling cannot be kept in arrays; arm64 uses NEON.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/cpu/matmul_panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/matmul_simd.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again.
#include <hwy/highway.h>

// Not for the emulated vectors that Highway takes for x86-64's baseline: SSSE3 is the least here.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
HWY_BEFORE_NAMESPACE();
namespace cadre::kernels::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = HWY_FULL(float);
using Words = HWY_FULL(uint32_t);
using FourFloats = hn::FixedTag<float, 4>;
using FourWords = hn::FixedTag<uint32_t, 4>;
constexpr Floats kFloats;
constexpr Words kWords;
constexpr int64_t kLanes = HWY_LANES(float);

// AVX-512 has 32 registers: 14 x 2 accumulators, 2 of B, 1 of A. AVX2 has 16: 6 x 2 + 2 + 1.
#if HWY_TARGET == HWY_AVX3
constexpr int64_t kRows = 14;
constexpr int64_t kVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int64_t kRows = 8;
constexpr int64_t kVectors = 3;
#else
constexpr int64_t kRows = 6;
constexpr int64_t kVectors = 2;
#endif
constexpr int64_t kColumns = kVectors * kLanes;
static_assert(kRows <= kPanelRowsMax && kColumns <= kPanelColumnsMax);

template <int64_t kHeight>
void multiply_rows(const PanelProduct& product) {
  using Vector = hn::Vec<Floats>;
  const auto c_row = [&](int64_t i) {
    return reinterpret_cast<float*>(product.c + i * product.c_row_bytes);
  };
  Vector sums[kHeight][kVectors];
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kHeight; ++i) {
    HWY_UNROLL(4)
    for (int64_t j = 0; j < kVectors; ++j) {
      sums[i][j] = hn::LoadU(kFloats, product.start + j * kLanes);
      __builtin_prefetch(c_row(i) + j * kLanes);
    }
  }
  const std::byte* a = product.a;
  const auto* b = reinterpret_cast<const float*>(product.b);
  const std::byte* soon = product.soon;
  for (int64_t u = 0; u < product.units;) {
    int64_t end = product.units;
    if (soon != nullptr) {
      end = std::min(u + kUnitsOfLine, end);
      HWY_UNROLL(16)
      for (int64_t i = 0; i < kUnitsOfLine; ++i) {
        __builtin_prefetch(soon + i * product.soon_step_bytes, 0, 2);
      }
      soon += product.soon_stride_bytes;
    }
    for (; u < end; ++u) {
      Vector columns[kVectors];
      HWY_UNROLL(4)
      for (int64_t j = 0; j < kVectors; ++j) {
        columns[j] = hn::LoadU(kFloats, b + j * kLanes);
      }
      HWY_UNROLL(16)
      for (int64_t i = 0; i < kHeight; ++i) {
        const Vector row =
            hn::Set(kFloats, *reinterpret_cast<const float*>(a + i * product.a_row_bytes));
        HWY_UNROLL(4)
        for (int64_t j = 0; j < kVectors; ++j) {
          sums[i][j] = hn::MulAdd(row, columns[j], sums[i][j]);
        }
      }
      a += product.a_unit_bytes;
      b += kColumns;
    }
  }
  const bool adds = product.output == Output::kAddF32;
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kHeight; ++i) {
    float* const c = c_row(i);
    if (adds) {
      HWY_UNROLL(4)
      for (int64_t j = 0; j < kVectors; ++j) {
        sums[i][j] = hn::Add(hn::LoadU(kFloats, c + j * kLanes), sums[i][j]);
      }
    }
    HWY_UNROLL(4)
    for (int64_t j = 0; j < kVectors; ++j) {
      hn::StoreU(sums[i][j], kFloats, c + j * kLanes);
    }
  }
}

template <size_t... kIndex>
constexpr auto heights(std::index_sequence<kIndex...>) {
  return std::array{&multiply_rows<static_cast<int64_t>(kIndex) + 1>...};
}

void multiply(const PanelProduct& product) {
  static constexpr auto kHeights = heights(std::make_index_sequence<size_t{kRows}>());
  kHeights[static_cast<size_t>(product.rows - 1)](product);
}

// How elements become units. `kPerUnit` elements of a line along K make one; across K, the units
// are made of `kPerUnit` lines.
struct FloatUnit {
  static constexpr int64_t kPerUnit = 1;
  static constexpr int64_t kElementBytes = 4;
  static uint32_t unit(const std::byte* element) {
    uint32_t bits;
    std::memcpy(&bits, element, sizeof(bits));
    return bits;
  }
  template <typename D>
  static hn::Vec<D> load(D d, const std::byte* elements) {
    return hn::LoadU(d, reinterpret_cast<const uint32_t*>(elements));
  }
};

struct Bf16Unit {
  static constexpr int64_t kPerUnit = 1;
  static constexpr int64_t kElementBytes = 2;
  static uint32_t unit(const std::byte* element) {
    uint16_t bits;
    std::memcpy(&bits, element, sizeof(bits));
    return uint32_t{bits} << 16;
  }
  template <typename D>
  static hn::Vec<D> load(D d, const std::byte* elements) {
    const hn::Rebind<uint16_t, D> halves;
    const auto bits = hn::LoadU(halves, reinterpret_cast<const uint16_t*>(elements));
    return hn::ShiftLeft<16>(hn::PromoteTo(d, bits));
  }
};

struct F16Unit {
  static constexpr int64_t kPerUnit = 1;
  static constexpr int64_t kElementBytes = 2;
  static uint32_t unit(const std::byte* element) {
    F16 half;
    std::memcpy(&half, element, sizeof(half));
    return std::bit_cast<uint32_t>(to_float(half));
  }
  template <typename D>
  static hn::Vec<D> load(D d, const std::byte* elements) {
#if HWY_TARGET == HWY_SSSE3
    // Without an instruction for it Highway takes infinity and NaN for numbers.
    std::array<uint32_t, hn::MaxLanes(D())> units;
    for (size_t i = 0; i < units.size(); ++i) {
      units[i] = unit(elements + i * kElementBytes);
    }
    return hn::LoadU(d, units.data());
#else
    const hn::Rebind<hwy::float16_t, D> halves;
    const hn::Rebind<float, D> floats;
    const auto bits = hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(elements));
    return hn::BitCast(d, hn::PromoteTo(floats, bits));
#endif
  }
};

struct PairUnit {
  static constexpr int64_t kPerUnit = 2;
  static constexpr int64_t kElementBytes = 2;
  static uint32_t unit(const std::byte* elements) { return FloatUnit::unit(elements); }
  template <typename D>
  static hn::Vec<D> load(D d, const std::byte* elements) {
    return FloatUnit::load(d, elements);
  }
};

uint16_t half_word(const std::byte* element) {
  uint16_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  return bits;
}

// Writes the units of one line along K.
template <typename Unit>
void pack_line(uint32_t* packed, const std::byte* line, int64_t length) {
  const int64_t whole = length / Unit::kPerUnit;
  constexpr int64_t kStep = Unit::kPerUnit * Unit::kElementBytes;
  int64_t u = 0;
  for (; u + kLanes <= whole; u += kLanes) {
    hn::StoreU(Unit::load(kWords, line + u * kStep), kWords, packed + u);
  }
  for (; u < whole; ++u) {
    packed[u] = Unit::unit(line + u * kStep);
  }
  if (length % Unit::kPerUnit != 0) {
    packed[u] = half_word(line + u * kStep);
  }
}

template <typename Unit>
void pack_rows(std::byte* packed, int64_t packed_line_bytes, const Lines& source) {
  for (int64_t i = 0; i < source.lines; ++i) {
    pack_line<Unit>(reinterpret_cast<uint32_t*>(packed + i * packed_line_bytes),
                    source.data + i * source.line_bytes, source.length);
  }
}

constexpr int64_t kLinesAhead = 16;

template <typename Unit>
void pack_across(std::byte* packed, int64_t width, const Lines& source) {
  static_assert(Unit::kPerUnit == 1);
  auto* to = reinterpret_cast<uint32_t*>(packed);
  for (int64_t k = 0; k < source.lines; ++k, to += width) {
    const std::byte* const line = source.data + k * source.line_bytes;
    // Each line may lie in a page of its own, which the processor does not foresee.
    const std::byte* const ahead = line + kLinesAhead * source.line_bytes;
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + source.length * Unit::kElementBytes - 1);
    int64_t i = 0;
    for (; i < source.length && line + (i + kLanes) * Unit::kElementBytes <= source.readable;
         i += kLanes) {
      hn::StoreU(Unit::load(kWords, line + i * Unit::kElementBytes), kWords, to + i);
    }
    for (; i < source.length; ++i) {
      to[i] = Unit::unit(line + i * Unit::kElementBytes);
    }
  }
}

// Four units of each of kLanes lines: register j holds lines j, j + 4, ... in its blocks of 128
// bits, so that one exchange within blocks leaves the lines in order.
template <typename Unit, typename D>
hn::Vec<D> load_blocks(D d, const std::byte* line, int64_t block_bytes) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return Unit::load(FourWords(), line);
  } else {
    const hn::Half<D> half;
    const int64_t half_blocks = static_cast<int64_t>(hn::MaxLanes(half)) / 4;
    return hn::Combine(d, load_blocks<Unit>(half, line + half_blocks * block_bytes, block_bytes),
                       load_blocks<Unit>(half, line, block_bytes));
  }
}

template <typename Unit>
void transpose_four(uint32_t* packed, const std::byte* lines, int64_t line_bytes) {
  const hn::Repartition<uint64_t, Words> pairs;
  const auto row0 = load_blocks<Unit>(kWords, lines, 4 * line_bytes);
  const auto row1 = load_blocks<Unit>(kWords, lines + line_bytes, 4 * line_bytes);
  const auto row2 = load_blocks<Unit>(kWords, lines + 2 * line_bytes, 4 * line_bytes);
  const auto row3 = load_blocks<Unit>(kWords, lines + 3 * line_bytes, 4 * line_bytes);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(kWords, row0, row1));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(kWords, row0, row1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(kWords, row2, row3));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(kWords, row2, row3));
  const auto store = [packed](int64_t u, auto pair) HWY_ATTR {
    hn::StoreU(hn::BitCast(kWords, pair), kWords, packed + u * kColumns);
  };
  store(0, hn::InterleaveLower(pairs, low01, low23));
  store(1, hn::InterleaveUpper(pairs, low01, low23));
  store(2, hn::InterleaveLower(pairs, high01, high23));
  store(3, hn::InterleaveUpper(pairs, high01, high23));
}

template <typename Unit>
void pack_transposed(std::byte* packed, const Lines& source) {
  auto* const to = reinterpret_cast<uint32_t*>(packed);
  constexpr int64_t kStep = Unit::kPerUnit * Unit::kElementBytes;
  const int64_t whole = source.length / Unit::kPerUnit;
  int64_t u = 0;
  for (; u + 4 <= whole && source.lines == kColumns; u += 4) {
    if (u * kStep % kAlignment == 0) {
      // These are too many lines for the processor to foresee: ask for the next panel's.
      for (int64_t j = kColumns; j < 2 * kColumns; ++j) {
        __builtin_prefetch(source.data + j * source.line_bytes + u * kStep, 0, 2);
      }
    }
    for (int64_t j = 0; j < kColumns; j += kLanes) {
      transpose_four<Unit>(to + u * kColumns + j, source.data + j * source.line_bytes + u * kStep,
                           source.line_bytes);
    }
  }
  for (; u * Unit::kPerUnit < source.length; ++u) {
    for (int64_t j = 0; j < source.lines; ++j) {
      const std::byte* const element = source.data + j * source.line_bytes + u * kStep;
      to[u * kColumns + j] = u < whole ? Unit::unit(element) : half_word(element);
    }
  }
}

// How c's elements are loaded and stored; vectors of them as words, to be loaded by their Unit.
struct StoreFloat {
  using Element = float;
  using Unit = FloatUnit;
  static void store(hn::Vec<Floats> value, float* to) { hn::StoreU(value, kFloats, to); }
};

struct StoreBf16 {
  using Element = Bf16;
  using Unit = Bf16Unit;
  // As from_float<Bf16>: to nearest, ties to even; a NaN stays one.
  static void store(hn::Vec<Floats> value, Bf16* to) {
    const hn::RebindToSigned<Words> signed_words;
    const hn::Rebind<uint16_t, Words> halves;
    const auto bits = hn::BitCast(kWords, value);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(kWords, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(kWords, 0x7FFF))));
    const auto nan = hn::RebindMask(kWords, hn::IsNaN(value));
    const auto words = hn::IfThenElse(nan, hn::Or(high, hn::Set(kWords, 0x40)), rounded);
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(signed_words, words)), halves,
               reinterpret_cast<uint16_t*>(to));
  }
};

struct StoreF16 {
  using Element = F16;
  using Unit = F16Unit;
  static void store(hn::Vec<Floats> value, F16* to) {
#if HWY_TARGET == HWY_SSSE3
    std::array<float, kLanes> floats;
    hn::StoreU(value, kFloats, floats.data());
    for (const float each : floats) {
      *to++ = from_float<F16>(each);
    }
#else
    const hn::Rebind<hwy::float16_t, Floats> halves;
    hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(to));
#endif
  }
};

template <typename Store>
void finish_as(const FinishedTile& finished) {
  using Element = typename Store::Element;
  const Tensor& c_MN = finished.c_MN;
  for (int64_t m = 0; m < c_MN.shape[0]; ++m) {
    const float* const tile = finished.tile + m * finished.tile_row_bytes / kUnitBytes;
    Element* const c = c_MN.begin<Element>() + m * c_MN.strides[0];
    int64_t n = 0;
    for (; n + kLanes <= c_MN.shape[1]; n += kLanes) {
      auto sum = hn::LoadU(kFloats, tile + n);
      if (finished.adds) {
        const auto old = Store::Unit::load(kWords, reinterpret_cast<const std::byte*>(c + n));
        sum = hn::Add(hn::BitCast(kFloats, old), sum);
      }
      Store::store(sum, c + n);
    }
    for (; n < c_MN.shape[1]; ++n) {
      c[n] = from_float<Element>(finished.adds ? to_float(c[n]) + tile[n] : tile[n]);
    }
  }
}

void finish(const FinishedTile& finished) {
  switch (finished.c_MN.dtype) {
    case DType::kF32:
      return finish_as<StoreFloat>(finished);
    case DType::kBf16:
      return finish_as<StoreBf16>(finished);
    default:
      return finish_as<StoreF16>(finished);
  }
}

constexpr PanelKernels kPanels{
    .rows = kRows,
    .packed_rows = (kRows + kLanes - 1) / kLanes * kLanes,
    .columns = kColumns,
    .multiply = multiply,
    .pack_rows = {pack_rows<FloatUnit>, pack_rows<Bf16Unit>, pack_rows<F16Unit>,
                  pack_rows<PairUnit>},
    .pack_across = {pack_across<FloatUnit>, pack_across<Bf16Unit>, pack_across<F16Unit>, nullptr},
    .pack_transposed = {pack_transposed<FloatUnit>, pack_transposed<Bf16Unit>,
                        pack_transposed<F16Unit>, pack_transposed<PairUnit>},
    .finish = finish};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace cadre::kernels::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace cadre::kernels::cpu {

#if defined(__x86_64__)
const PanelKernels kPanelsSimd = N_SSSE3::kPanels;
const PanelKernels kPanelsAvx2 = N_AVX2::kPanels;
const PanelKernels kPanelsAvx512 = N_AVX3::kPanels;
const PanelKernels kPanelsAvx512Bf16 = [] {
  PanelKernels kernels = N_AVX3::kPanels;
  kernels.multiply_pairs = multiply_pairs_avx512;
  kernels.pack_across[static_cast<size_t>(Unit::kPair)] = pack_pairs_across_avx512;
  return kernels;
}();
const PanelKernels kPanelsAmxBf16 = [] {
  PanelKernels kernels = N_AVX3::kPanels;
  kernels.rows = 32;  // two tiles
  kernels.multiply = nullptr;
  kernels.multiply_pairs = multiply_pairs_amx;
  kernels.turn_pairs = turn_pairs_amx;
  kernels.pack_across[static_cast<size_t>(Unit::kPair)] = pack_pairs_across_avx512;
  return kernels;
}();
#else
const PanelKernels kPanelsSimd = HWY_STATIC_DISPATCH(kPanels);
#endif

}  // namespace cadre::kernels::cpu
#endif
