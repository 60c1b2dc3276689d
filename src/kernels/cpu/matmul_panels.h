// The inner parts of the blocked matrix product, one table of functions per instruction set.
//
// Operands are read in panels. A panel of A is up to `rows` rows; a panel of B is `columns`
// columns, packed row by row. Along K both consist of units of four bytes: one float, or two bf16
// whose products are summed by one instruction. So one set of strides and copies serves both.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "tensor/tensor.h"

namespace cadre::kernels::cpu {

inline constexpr int64_t kUnitBytes = 4;
inline constexpr int64_t kUnitsOfLine = 16;  // of a line of the cache
inline constexpr int64_t kPanelRowsMax = 32;
inline constexpr int64_t kPanelColumnsMax = 32;

// What a unit is made of.
enum class Unit {
  kFloat,  // one f32
  kBf16,   // one bf16, widened to f32 while it is packed
  kF16,    // one f16, likewise
  kPair,   // two bf16, adjacent in K; after an odd K comes a zero; see multiply_pairs
};
inline constexpr size_t kUnits = 4;

// Where the product of two panels goes.
enum class Output { kOverwriteF32, kAddF32, kOverwriteBf16 };

//   c[i, j] = start[j] + sum over u of a[i, u] b[u, j],  or c += the same
struct PanelProduct {
  const std::byte* a = nullptr;
  int64_t a_row_bytes = 0;   // from a row to the next
  int64_t a_unit_bytes = 0;  // from a unit to the next
  const std::byte* b = nullptr;
  int64_t units = 0;
  const float* start = nullptr;  // `columns` floats
  std::byte* c = nullptr;
  int64_t c_row_bytes = 0;
  int64_t rows = 0;
  Output output = Output::kOverwriteF32;
  // Memory that will be read soon, asked for meanwhile; or null. For every kUnitsOfLine units: a
  // line of the cache for each row of the panel (at least as many), soon_step_bytes apart, then
  // soon_stride_bytes further.
  const std::byte* soon = nullptr;
  int64_t soon_step_bytes = 0;
  int64_t soon_stride_bytes = 0;
};

// Part of an operand, seen as lines that are adjacent in memory: `lines` of them, `length` elements
// each.
struct Lines {
  const std::byte* data = nullptr;
  int64_t line_bytes = 0;  // from a line to the next
  int64_t lines = 0;
  int64_t length = 0;
  const std::byte* readable = nullptr;  // the end of the operand: vectors may reach up to it
};

// Floats that go to c where no panel product can write itself:  c = tile, or c += tile, rounded
// once.
struct FinishedTile {
  Tensor c_MN;
  const float* tile = nullptr;
  int64_t tile_row_bytes = 0;
  bool adds = false;
};

struct PanelKernels {
  int64_t rows = 0;
  int64_t packed_rows = 0;  // of a panel packed across K: filled up to whole vectors
  int64_t columns = 0;

  // Multiplies panels of f32. Not for Output::kOverwriteBf16.
  void (*multiply)(const PanelProduct& product) = nullptr;
  // Multiplies panels of pairs, into any Output. Null where the machine has no such instruction.
  void (*multiply_pairs)(const PanelProduct& product) = nullptr;
  // Not null if multiply_pairs wants units of a row of A side by side: packs lines across K as if
  // they ran along K. Line i of the result begins at packed + i * packed_line_bytes; `source` has
  // a line for each k.
  void (*turn_pairs)(std::byte* packed, int64_t packed_line_bytes, const Lines& source) = nullptr;

  // The packing functions, by Unit. Each writes units to `packed`.
  //
  // Lines along K stay lines: line i begins at packed + i * packed_line_bytes.
  void (*pack_rows[kUnits])(std::byte* packed, int64_t packed_line_bytes, const Lines& source);
  // Lines across K (one per k, `length` rows or columns of the panel): unit u of the panel begins
  // at packed + u * width * kUnitBytes. What is between length and width is undefined.
  void (*pack_across[kUnits])(std::byte* packed, int64_t width, const Lines& source);
  // Lines along K become units across K, `columns` wide. Columns after the last line are undefined.
  void (*pack_transposed[kUnits])(std::byte* packed, const Lines& source);

  void (*finish)(const FinishedTile& finished) = nullptr;
};

extern const PanelKernels kPanelsSimd;
#if defined(__x86_64__)
extern const PanelKernels kPanelsAvx2;
extern const PanelKernels kPanelsAvx512;
extern const PanelKernels kPanelsAvx512Bf16;  // those of kPanelsAvx512, and pairs
extern const PanelKernels kPanelsAmxBf16;     // for pairs alone
void multiply_pairs_amx(const PanelProduct& product);
void turn_pairs_amx(std::byte* packed, int64_t packed_line_bytes, const Lines& source);
void multiply_pairs_avx512(const PanelProduct& product);
void pack_pairs_across_avx512(std::byte* packed, int64_t width, const Lines& source);
#endif

}  // namespace cadre::kernels::cpu
