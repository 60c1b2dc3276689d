// The blocked matrix product: how operands are cut, packed and walked. After Goto and van de Geijn
// (2008) and BLIS: a block of B is packed once by all threads; then tiles of the product are
// computed, a panel of A against a panel of B at a time.
//
// K is cut by its length and the dtypes only, and each element of c is summed along K in ascending
// order. So an element's bits depend neither on threads nor on where it lies in which product.

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/matmul_panels.h"
#include "kernels/cpu/matmul_plan.h"
#include "kernels/matmul.h"

namespace cadre::kernels::cpu {
namespace {

constexpr int64_t kPackedTogether = 4;  // panels
constexpr int64_t kLinesInTurn = 32;    // even: pairs stay together

bool is_empty(const MatmulTask& task) {
  return task.c_MN.shape.elements() == 0;
}

float load(ConstTensor vector, int64_t index) {
  switch (vector.dtype) {
    case DType::kF32:
      return vector.begin<float>()[index];
    case DType::kBf16:
      return to_float(vector.begin<Bf16>()[index]);
    default:
      return to_float(vector.begin<F16>()[index]);
  }
}

// Panels [first, end) of A times those of B.
struct Tile {
  int64_t first_p = 0;
  int64_t end_p = 0;
  int64_t first_q = 0;
  int64_t end_q = 0;
  std::byte* packed_a = nullptr;  // of panel first_p, if A is packed
};

class BlockedProduct {
 public:
  BlockedProduct(Context& context, const MatmulTask& task, const PanelKernels& kernels,
                 const MatmulPlan& plan, std::byte* workspace)
      : context_(context),
        task_(task),
        kernels_(kernels),
        plan_(plan),
        panel_rows_(task.c_MN.shape[0] / plan.panels_a),
        taller_panels_(task.c_MN.shape[0] % plan.panels_a),
        a_row_bytes_(task.a_MK.strides[0] * bytes_of(task.a_MK.dtype)),
        a_k_bytes_(task.a_MK.strides[1] * bytes_of(task.a_MK.dtype)),
        c_row_bytes_(task.c_MN.strides[0] * bytes_of(task.c_MN.dtype)),
        packed_b_(workspace),
        staged_(packed_b_ + plan.packed_b_bytes()),
        packed_a_(staged_ + plan.staged_bytes) {}

  void run() {
    for (first_b_ = 0; first_b_ < plan_.panels_b; first_b_ = end_b_) {
      end_b_ = std::min(first_b_ + plan_.block_panels_b, plan_.panels_b);
      // Staged sums are for one block of rows, which has to be finished before the next.
      const int64_t rows_apart = plan_.stages ? plan_.block_panels_a : plan_.panels_a;
      for (int64_t first = 0; first < plan_.panels_a; first += rows_apart) {
        run_columns(first, std::min(first + rows_apart, plan_.panels_a));
      }
    }
  }

 private:
  // The product of panels [first, end) of A and the current panels of B.
  void run_columns(int64_t first, int64_t end) {
    first_unit_ = 0;
    do {
      block_units_ = std::min(plan_.block_units, plan_.units - first_unit_);
      for (first_a_ = first; first_a_ < end; first_a_ = end_a_) {
        end_a_ = std::min(first_a_ + plan_.block_panels_a, end);
        pack(first_a_ == first);
        multiply();
      }
      first_unit_ += block_units_;
    } while (first_unit_ < plan_.units);
  }

  void pack(bool with_b) {
    const int64_t groups_b = with_b ? divide_up(end_b_ - first_b_, kPackedTogether) : 0;
    const bool with_a = plan_.packs_a && !plan_.tiles_pack_a;
    const int64_t groups_a = with_a ? divide_up(end_a_ - first_a_, kPackedTogether) : 0;
    context_.threads.run(groups_b + groups_a, [&](int64_t group, int) {
      if (group < groups_b) {
        const int64_t q = first_b_ + group * kPackedTogether;
        pack_b(q, std::min(q + kPackedTogether, end_b_));
      } else {
        const int64_t p = first_a_ + (group - groups_b) * kPackedTogether;
        pack_a(packed_a_ + (p - first_a_) * plan_.a_panel_bytes, p,
               std::min(p + kPackedTogether, end_a_));
      }
    });
  }

  void multiply() {
    const int64_t tiles_a = divide_up(end_a_ - first_a_, plan_.tile_panels_a);
    const int64_t tiles_b = divide_up(end_b_ - first_b_, plan_.tile_panels_b);
    context_.threads.run(tiles_a * tiles_b, [&](int64_t index, int thread) {
      Tile tile;
      tile.first_p = first_a_ + index % tiles_a * plan_.tile_panels_a;
      tile.end_p = std::min(tile.first_p + plan_.tile_panels_a, end_a_);
      tile.first_q = first_b_ + index / tiles_a * plan_.tile_panels_b;
      tile.end_q = std::min(tile.first_q + plan_.tile_panels_b, end_b_);
      if (plan_.tiles_pack_a) {
        tile.packed_a = packed_a_ + thread * plan_.packed_a_bytes();
        pack_a(tile.packed_a, tile.first_p, tile.end_p);
      } else {
        tile.packed_a = packed_a_ + (tile.first_p - first_a_) * plan_.a_panel_bytes;
      }
      multiply_tile(tile);
    });
  }

  void multiply_tile(const Tile& tile) const {
    for (int64_t q = tile.first_q; q < tile.end_q; ++q) {
      std::array<float, kPanelColumnsMax> start{};
      if (!task_.bias_N.empty() && first_unit_ == 0) {
        const int64_t first_column = q * kernels_.columns;
        for (int64_t j = 0; j < columns_of(q); ++j) {
          start[static_cast<size_t>(j)] = load(task_.bias_N, first_column + j);
        }
      }
      for (int64_t p = tile.first_p; p < tile.end_p; ++p) {
        PanelProduct product = product_of(tile, p, q);
        product.start = start.data();
        ask_for_soon(product, tile, p, q);
        multiply_panels(product, p, q);
      }
    }
  }

  // What is read for the first time comes from far away, and is waited for unless it was asked for
  // before: the next panel of A, or of the tile after this one, if threads take turns.
  void ask_for_soon(PanelProduct& product, const Tile& tile, int64_t p, int64_t q) const {
    const int64_t pass = q - tile.first_q;
    const int64_t next_tile = plan_.tile_panels_a * context_.threads.threads();
    int64_t soon = p + next_tile;
    if (!plan_.tiles_pack_a) {
      soon = p + 1 < tile.end_p ? p + 1 : tile.first_p + next_tile;
    }
    if (soon >= end_a_ || (plan_.packs_a && !plan_.tiles_pack_a)) {
      return;
    }
    const std::byte* const first = address_of_a(soon);
    if (plan_.a_along_k) {
      if (pass == 0) {
        product.soon = first;
        product.soon_step_bytes = a_row_bytes_;
        product.soon_stride_bytes = kUnitsOfLine * plan_.per_unit * a_k_bytes_;
      }
      return;
    }
    // Lines across K are shorter than two of the cache: first where they begin, then where they
    // end.
    if (pass < 2 * plan_.per_unit) {
      const int64_t end = pass < plan_.per_unit ? 0 : rows_of(soon) * a_row_bytes_ - 1;
      product.soon = first + pass % plan_.per_unit * a_k_bytes_ + end;
      product.soon_step_bytes = plan_.per_unit * a_k_bytes_;
      product.soon_stride_bytes = kUnitsOfLine * product.soon_step_bytes;
    }
  }

  // Panels of A are of even height, so that none is much shorter, which would be slower.
  int64_t row_of(int64_t p) const { return p * panel_rows_ + std::min(p, taller_panels_); }
  int64_t rows_of(int64_t p) const { return panel_rows_ + (p < taller_panels_ ? 1 : 0); }
  const std::byte* address_of_a(int64_t p) const {
    return task_.a_MK.data + row_of(p) * a_row_bytes_ + first_k() * a_k_bytes_;
  }
  int64_t columns_of(int64_t q) const {
    return std::min(kernels_.columns, task_.c_MN.shape[1] - q * kernels_.columns);
  }
  int64_t first_k() const { return first_unit_ * plan_.per_unit; }
  int64_t block_k() const {
    return std::min(block_units_ * plan_.per_unit, task_.a_MK.shape[1] - first_k());
  }

  // `lines` is the dimension of `part` that counts lines; the other runs along them.
  static Lines lines_of(ConstTensor part, int lines, ConstTensor operand) {
    const int64_t last =
        (operand.shape[0] - 1) * operand.strides[0] + (operand.shape[1] - 1) * operand.strides[1];
    return {.data = part.data,
            .line_bytes = part.strides[lines] * bytes_of(part.dtype),
            .lines = part.shape[lines],
            .length = part.shape[1 - lines],
            .readable = operand.data + (last + 1) * bytes_of(part.dtype)};
  }

  std::byte* packed_b(int64_t q) const { return packed_b_ + (q - first_b_) * plan_.b_panel_bytes; }

  ConstTensor panel_of_a(int64_t p) const {
    return task_.a_MK.slice({.first = {row_of(p), first_k()}, .size = {rows_of(p), block_k()}});
  }

  // Panels that lie side by side are packed in turns where lines run across K: a line is long, a
  // panel takes a few bytes of each, and what it leaves is in the cache for the next panel.
  template <typename PackLines>
  void pack_in_turns(int64_t first, int64_t end, const PackLines& pack_lines) const {
    for (int64_t k = 0; k < block_k(); k += kLinesInTurn) {
      for (int64_t panel = first; panel < end; ++panel) {
        pack_lines(panel, k, std::min(kLinesInTurn, block_k() - k));
      }
    }
  }

  void pack_a(std::byte* packed, int64_t first, int64_t end) const {
    const auto unit = static_cast<size_t>(plan_.unit);
    if (plan_.turns_a) {
      for (int64_t p = first; p < end; ++p) {
        kernels_.turn_pairs(packed + (p - first) * plan_.a_panel_bytes, plan_.a_line_bytes,
                            lines_of(panel_of_a(p), 1, task_.a_MK));
      }
      return;
    }
    if (plan_.a_along_k) {
      for (int64_t p = first; p < end; ++p) {
        kernels_.pack_rows[unit](packed + (p - first) * plan_.a_panel_bytes, plan_.a_line_bytes,
                                 lines_of(panel_of_a(p), 0, task_.a_MK));
      }
      return;
    }
    pack_in_turns(first, end, [&](int64_t p, int64_t k, int64_t count) {
      const ConstTensor part = panel_of_a(p).columns(k, count);
      const int64_t width = kernels_.packed_rows;
      std::byte* const to =
          packed + (p - first) * plan_.a_panel_bytes + k / plan_.per_unit * width * kUnitBytes;
      kernels_.pack_across[unit](to, width, lines_of(part, 1, task_.a_MK));
    });
  }

  ConstTensor panel_of_b(int64_t q) const {
    return task_.b_KN.slice(
        {.first = {first_k(), q * kernels_.columns}, .size = {block_k(), columns_of(q)}});
  }

  void pack_b(int64_t first, int64_t end) const {
    const auto unit = static_cast<size_t>(plan_.unit);
    if (plan_.b_along_k) {
      for (int64_t q = first; q < end; ++q) {
        kernels_.pack_transposed[unit](packed_b(q), lines_of(panel_of_b(q), 1, task_.b_KN));
      }
      return;
    }
    pack_in_turns(first, end, [&](int64_t q, int64_t k, int64_t count) {
      kernels_.pack_across[unit](packed_b(q) + k / plan_.per_unit * kernels_.columns * kUnitBytes,
                                 kernels_.columns,
                                 lines_of(panel_of_b(q).rows(k, count), 0, task_.b_KN));
    });
  }

  PanelProduct product_of(const Tile& tile, int64_t p, int64_t q) const {
    PanelProduct product{.a = address_of_a(p),
                         .a_row_bytes = a_row_bytes_,
                         .a_unit_bytes = kUnitBytes,
                         .b = packed_b(q),
                         .units = block_units_,
                         .rows = rows_of(p)};
    if (plan_.packs_a) {
      product.a = tile.packed_a + (p - tile.first_p) * plan_.a_panel_bytes;
      const bool along_k = plan_.a_along_k || plan_.turns_a;
      product.a_row_bytes = along_k ? plan_.a_line_bytes : kUnitBytes;
      product.a_unit_bytes = along_k ? kUnitBytes : kernels_.packed_rows * kUnitBytes;
    }
    return product;
  }

  Tensor part_of_c(int64_t p, int64_t q) const {
    return task_.c_MN.slice(
        {.first = {row_of(p), q * kernels_.columns}, .size = {rows_of(p), columns_of(q)}});
  }

  // Sends the product where it belongs.
  void multiply_panels(PanelProduct& product, int64_t p, int64_t q) const {
    const bool adds_to_c = task_.store == Store::kAdd;
    if (plan_.stages) {
      product.c = staged_ + (row_of(p) - row_of(first_a_)) * plan_.staged_row_bytes +
                  (q - first_b_) * kernels_.columns * kUnitBytes;
      product.c_row_bytes = plan_.staged_row_bytes;
      product.output = first_unit_ > 0 ? Output::kAddF32 : Output::kOverwriteF32;
      multiply_units(product);
      if (first_unit_ + block_units_ == plan_.units) {
        kernels_.finish({part_of_c(p, q), reinterpret_cast<const float*>(product.c),
                         product.c_row_bytes, adds_to_c});
      }
      return;
    }
    const bool adds = adds_to_c || first_unit_ > 0;
    const DType dtype = task_.c_MN.dtype;
    product.c = task_.c_MN.data + row_of(p) * c_row_bytes_ + q * kernels_.columns * bytes_of(dtype);
    product.c_row_bytes = c_row_bytes_;
    const bool whole = columns_of(q) == kernels_.columns;
    if (whole && dtype == DType::kF32) {
      product.output = adds ? Output::kAddF32 : Output::kOverwriteF32;
      multiply_units(product);
    } else if (whole && !adds && plan_.unit == Unit::kPair) {
      product.output = Output::kOverwriteBf16;
      multiply_units(product);
    } else {
      alignas(kAlignment) float tile[kPanelRowsMax * kPanelColumnsMax];
      product.c = reinterpret_cast<std::byte*>(tile);
      product.c_row_bytes = kernels_.columns * kUnitBytes;
      product.output = Output::kOverwriteF32;
      multiply_units(product);
      kernels_.finish({part_of_c(p, q), tile, product.c_row_bytes, adds});
    }
  }

  void multiply_units(const PanelProduct& product) const {
    if (plan_.unit == Unit::kPair) {
      kernels_.multiply_pairs(product);
    } else {
      kernels_.multiply(product);
    }
  }

  Context& context_;
  const MatmulTask& task_;
  const PanelKernels& kernels_;
  const MatmulPlan& plan_;
  const int64_t panel_rows_;
  const int64_t taller_panels_;  // the first ones have a row more
  const int64_t a_row_bytes_;
  const int64_t a_k_bytes_;
  const int64_t c_row_bytes_;
  std::byte* const packed_b_;
  std::byte* const staged_;
  std::byte* const packed_a_;  // of the block, or of each thread's tile in turn
  // The block that is worked on: panels [first, end) and units of K.
  int64_t first_a_ = 0;
  int64_t end_a_ = 0;
  int64_t first_b_ = 0;
  int64_t end_b_ = 0;
  int64_t first_unit_ = 0;
  int64_t block_units_ = 0;
};

template <const PanelKernels& kKernels>
int64_t plan_workspace_bytes(const MatmulTask& task, int threads) {
  return is_empty(task) ? 0 : plan_matmul(task, kKernels).workspace_bytes(threads);
}

// A plan depends on the number of rows by way of panels only.
template <const PanelKernels& kKernels>
int64_t plan_any_rows_bytes(const MatmulTask& task, int threads) {
  int64_t most = 0;
  MatmulTask part = task;
  for (int64_t rows = 0; rows < task.c_MN.shape[0];) {
    rows = std::min(rows + kKernels.rows, task.c_MN.shape[0]);
    part.c_MN.shape[0] = part.a_MK.shape[0] = rows;
    most = std::max(most, plan_workspace_bytes<kKernels>(part, threads));
  }
  return most;
}

// A longer K is cut into blocks, of lengths that a shorter one has had.
template <const PanelKernels& kKernels>
int64_t plan_any_depth_bytes(const MatmulTask& task, int threads) {
  CADRE_CHECK(task.c_MN.dtype == DType::kF32, "sums of another dtype are staged");
  int64_t most = 0;
  MatmulTask part = task;
  for (int64_t depth = 1; depth <= std::min(task.a_MK.shape[1], 2 * kBlockUnits); ++depth) {
    part.a_MK.shape[1] = part.b_KN.shape[0] = depth;
    most = std::max(most, plan_workspace_bytes<kKernels>(part, threads));
  }
  return most;
}

template <const PanelKernels& kKernels>
void run(Context& context, const MatmulTask& task, std::byte* workspace) {
  if (!is_empty(task)) {
    const MatmulPlan plan = plan_matmul(task, kKernels);
    BlockedProduct(context, task, kKernels, plan, workspace).run();
  }
}

template <const PanelKernels& kKernels>
constexpr MatmulBackend backend_for(Target target) {
  return {.target = target,
          .only_bf16 = target == Target::kCpuAmxBf16,
          .plan_workspace_bytes = plan_workspace_bytes<kKernels>,
          .plan_any_rows_bytes = plan_any_rows_bytes<kKernels>,
          .plan_any_depth_bytes = plan_any_depth_bytes<kKernels>,
          .run = run<kKernels>};
}

}  // namespace

const MatmulBackend kMatmulSimd = backend_for<kPanelsSimd>(Target::kCpuSimd);
#if defined(__x86_64__)
const MatmulBackend kMatmulAvx2 = backend_for<kPanelsAvx2>(Target::kCpuAvx2);
const MatmulBackend kMatmulAvx512 = backend_for<kPanelsAvx512>(Target::kCpuAvx512);
const MatmulBackend kMatmulAvx512Bf16 = backend_for<kPanelsAvx512Bf16>(Target::kCpuAvx512Bf16);
const MatmulBackend kMatmulAmxBf16 = backend_for<kPanelsAmxBf16>(Target::kCpuAmxBf16);
#endif

}  // namespace cadre::kernels::cpu
