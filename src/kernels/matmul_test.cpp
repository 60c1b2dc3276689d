// Numbers worked out by hand, then every layout, dtype and odd size against sums in double.

#include "kernels/matmul.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kCpu;
using testing::kMeta;
using testing::Rig;
using testing::RigOptions;

struct Sizes {
  int64_t M, N, K;
};

struct DTypes {
  DType operand, product;
};
constexpr DTypes kDTypes[] = {{DType::kF32, DType::kF32},
                              {DType::kBf16, DType::kBf16},
                              {DType::kBf16, DType::kF32},
                              {DType::kF16, DType::kF16},
                              {DType::kF16, DType::kF32}};

// Half a unit in the last place of 1, in which a product is stored.
double rounding_of(DType dtype) {
  return dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kBf16 ? 0x1p-8 : 0x1p-11;
}

struct Layout {
  bool a_transposed, b_transposed;
};
constexpr Layout kLayouts[] = {{false, false}, {false, true}, {true, false}, {true, true}};

// Random operands that are slices of larger ones: unaligned, with strides that are not their
// widths.
struct Operands {
  ConstTensor a_MK;
  ConstTensor b_KN;
};

Tensor slice_of(const Tensor& stored, int64_t rows, int64_t columns, bool transposed) {
  const Shape size = transposed ? Shape{columns, rows} : Shape{rows, columns};
  const Tensor part = stored.slice({.first = {1, 3}, .size = size});
  return transposed ? part.transposed() : part;
}

Tensor stored_for(Rig& rig, int64_t rows, int64_t columns, bool transposed, uint64_t seed,
                  DType dtype) {
  return transposed ? rig.random({columns + 1, rows + 5}, seed, dtype)
                    : rig.random({rows + 1, columns + 5}, seed, dtype);
}

Operands random_operands(Rig& rig, const Sizes& sizes, const Layout& layout, DType dtype) {
  const auto [M, N, K] = sizes;
  const Tensor a = stored_for(rig, M, K, layout.a_transposed, 1, dtype);
  const Tensor b = stored_for(rig, K, N, layout.b_transposed, 2, dtype);
  return {slice_of(a, M, K, layout.a_transposed), slice_of(b, K, N, layout.b_transposed)};
}

// c must be before + a b + bias. Every sum of K products, in any order, in fp32 with or without
// fused multiplications, is within (K + 2) u sum |a b| of the truth (Higham, 2002); storing c
// rounds once.
void expect_product(const std::vector<float>& c, const std::vector<float>& before,
                    const Operands& operands, const std::vector<float>& bias, DType product) {
  const std::vector<float> a = testing::values_of(operands.a_MK);
  const std::vector<float> b = testing::values_of(operands.b_KN.transposed());
  const auto K = static_cast<size_t>(operands.a_MK.shape[1]);
  const auto N = static_cast<size_t>(operands.b_KN.shape[1]);
  for (size_t i = 0; i < c.size(); ++i) {
    double sum = static_cast<double>(before[i]) + static_cast<double>(bias[i % N]);
    double magnitude =
        std::abs(static_cast<double>(before[i])) + std::abs(static_cast<double>(bias[i % N]));
    for (size_t k = 0; k < K; ++k) {
      const double term =
          static_cast<double>(a[i / N * K + k]) * static_cast<double>(b[i % N * K + k]);
      sum += term;
      magnitude += std::abs(term);
    }
    const double summing = (static_cast<double>(K) + 2.0) * 0x1p-24 * magnitude;
    const double storing = rounding_of(product) * (std::abs(sum) + summing) + 0x1p-25;
    ASSERT_NEAR(static_cast<double>(c[i]), sum, summing + storing)
        << "row " << i / N << ", column " << i % N << " of " << operands.a_MK.shape << " times "
        << operands.b_KN.shape;
  }
}

// All three forms; c is a slice too, and what lies around it must stay.
void check_products(Rig& rig, const Sizes& sizes, const Layout& layout, const DTypes& dtypes) {
  const auto [M, N, K] = sizes;
  const size_t first_tensor = rig.tensors.size();
  const Operands operands = random_operands(rig, sizes, layout, dtypes.operand);
  const Tensor around = rig.random({M + 2, N + 4}, 3, dtypes.product);
  const Tensor c = around.slice({.first = {1, 3}, .size = {M, N}});
  const Tensor bias = rig.random({N}, 4, dtypes.operand);
  const std::vector<float> surroundings = testing::values_of(around);
  const std::vector<float> before = testing::values_of(c);
  const std::vector<float> zeroes(before.size(), 0.0f);
  const std::vector<float> no_bias(static_cast<size_t>(N), 0.0f);

  matmul_add(rig.context, c, operands.a_MK, operands.b_KN);
  expect_product(testing::values_of(c), before, operands, no_bias, dtypes.product);
  matmul(rig.context, c, operands.a_MK, operands.b_KN, {});
  expect_product(testing::values_of(c), zeroes, operands, no_bias, dtypes.product);
  matmul(rig.context, c, operands.a_MK, operands.b_KN, {.bias_N = bias});
  expect_product(testing::values_of(c), zeroes, operands, testing::values_of(bias), dtypes.product);

  testing::set_values(c, before);
  EXPECT_EQ(testing::values_of(around), surroundings);
  rig.tensors.resize(first_tensor);
}

class MatmulTest : public ::testing::TestWithParam<Target> {
 protected:
  Device device{.kind = DeviceKind::kCpu, .target = GetParam()};
  Rig rig{device};
};
INSTANTIATE_TEST_SUITE_P(Targets, MatmulTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(MatmulTest, OverwritesOrAdds) {
  const Tensor a = rig.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = rig.tensor({3, 2}, {1, 0, 0, 1, -1, 2});
  const Tensor c = rig.tensor({2, 2}, {7, 7, 7, 7});
  matmul(rig.context, c, a, b, {});
  expect_near(c, rig.tensor({2, 2}, {-2, 8, -2, 17}), 0.0f);
  matmul_add(rig.context, c, a, b);
  expect_near(c, rig.tensor({2, 2}, {-4, 16, -4, 34}), 0.0f);
}

TEST_P(MatmulTest, AddsABiasToEveryRow) {
  const Tensor a = rig.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = rig.tensor({3, 2}, {1, 0, 0, 1, -1, 2});
  const Tensor c = rig.tensor({2, 2}, {7, 7, 7, 7});
  matmul(rig.context, c, a, b, {.bias_N = rig.tensor({2}, {100, -10})});
  expect_near(c, rig.tensor({2, 2}, {98, -2, 98, 7}), 0.0f);
}

TEST_P(MatmulTest, TakesTransposedAndSlicedViews) {
  const Tensor stored = rig.tensor({2, 3}, {1, 2, 9, 3, 4, 9});
  const Tensor square = stored.slice({.first = {0, 0}, .size = {2, 2}});  // [1 2; 3 4]
  const Tensor c = rig.tensor({2, 2});
  matmul(rig.context, c, square.transposed(), square, {});
  expect_near(c, rig.tensor({2, 2}, {10, 14, 14, 20}), 0.0f);
  matmul(rig.context, c, square, square.transposed(), {});
  expect_near(c, rig.tensor({2, 2}, {5, 11, 11, 25}), 0.0f);
}

TEST_P(MatmulTest, TakesEveryLayoutDTypeAndOddSize) {
  constexpr int64_t kSizes[] = {1, 7, 17, 33, 100};
  for (const DTypes& dtypes : kDTypes) {
    for (const Layout& layout : kLayouts) {
      for (const int64_t M : kSizes) {
        for (const int64_t N : kSizes) {
          for (const int64_t K : kSizes) {
            check_products(rig, {M, N, K}, layout, dtypes);
          }
        }
      }
    }
  }
}

// Sums that are cut, with staging where c is narrow; operands larger than a block.
TEST_P(MatmulTest, CutsLargeProductsIntoBlocks) {
  if (GetParam() == Target::kCpu) {
    GTEST_SKIP() << "plain C++ has no blocks";
  }
  Rig large(device, {.threads = 2, .arena_bytes = int64_t{32} << 20});
  for (const DTypes& dtypes : kDTypes) {
    check_products(large, {15, 33, 5001}, {false, true}, dtypes);
    check_products(large, {17, 9, 2500}, {true, false}, dtypes);
  }
  check_products(large, {5, 1100, 1030}, {false, false}, kDTypes[0]);
  check_products(large, {1100, 5, 1030}, {true, true}, kDTypes[0]);
  check_products(large, {6, 500, 4097}, {true, true}, kDTypes[1]);
}

// A stride of 4096 bytes: such rows are copied before they are read.
TEST_P(MatmulTest, TakesRowsThatCollideInTheCache) {
  const Tensor stored = rig.random({40, 1024}, 1);
  const Operands operands{stored.columns(5, 100), rig.random({100, 33}, 2)};
  const Tensor c = rig.tensor({40, 33});
  matmul(rig.context, c, operands.a_MK, operands.b_KN, {});
  expect_product(testing::values_of(c), std::vector<float>(40 * 33, 0.0f), operands,
                 std::vector<float>(33, 0.0f), DType::kF32);
}

TEST_P(MatmulTest, SumsOverNothing) {
  const Tensor a = rig.tensor({2, 0});
  const Tensor b = rig.tensor({0, 3});
  const Tensor c = rig.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  matmul_add(rig.context, c, a, b);
  EXPECT_EQ(testing::values_of(c), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  matmul(rig.context, c, a, b, {.bias_N = rig.tensor({3}, {7, 8, 9})});
  EXPECT_EQ(testing::values_of(c), (std::vector<float>{7, 8, 9, 7, 8, 9}));
  matmul(rig.context, c, a, b, {});
  EXPECT_EQ(testing::values_of(c), std::vector<float>(6, 0.0f));
  matmul(rig.context, rig.tensor({0, 3}), rig.tensor({0, 5}), rig.tensor({5, 3}), {});
  matmul(rig.context, rig.tensor({3, 0}), rig.tensor({3, 5}), rig.tensor({5, 0}), {});
}

// Also when it meets a zero; and only in its own row and column.
TEST_P(MatmulTest, PassesNanOn) {
  for (const DTypes& dtypes : kDTypes) {
    const Tensor a = rig.tensor({20, 50}, dtypes.operand);
    const Tensor b = rig.random({50, 40}, 1, dtypes.operand);
    testing::store(a, 3 * 50 + 49, std::numeric_limits<float>::quiet_NaN());
    testing::store(b, 7 * 40 + 11, std::numeric_limits<float>::infinity());
    const Tensor c = rig.tensor({20, 40}, dtypes.product);
    matmul(rig.context, c, a, b, {});
    for (int64_t i = 0; i < 20 * 40; ++i) {
      EXPECT_EQ(std::isnan(testing::load(c, i)), i / 40 == 3 || i % 40 == 11) << "at " << i;
    }
  }
}

// The layout of a run must not change its result: neither threads nor the rows and columns that are
// computed together may.
TEST_P(MatmulTest, GivesTheSameBitsWhateverTheThreadsAndTheCut) {
  const Sizes sizes{.M = 60, .N = 130, .K = 2601};
  for (const DTypes& dtypes : kDTypes) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
      Rig other(device, {.threads = threads, .arena_bytes = int64_t{16} << 20});
      const Operands operands = random_operands(other, sizes, {false, true}, dtypes.operand);
      const Tensor c = other.tensor({sizes.M, sizes.N}, dtypes.product);
      matmul(other.context, c, operands.a_MK, operands.b_KN, {});
      results.push_back(testing::values_of(c));
      const Tensor part = other.tensor({37, 35}, dtypes.product);
      matmul(other.context, part, operands.a_MK.rows(21, 37), operands.b_KN.columns(91, 35), {});
      EXPECT_EQ(testing::values_of(part), testing::values_of(c.rows(21, 37).columns(91, 35)));
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST_P(MatmulTest, BooksTheSameOnMeta) {
  for (const DTypes& dtypes : kDTypes) {
    std::vector<Segment> segments;
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kMeta}) {
      Rig other({.kind = kind, .target = GetParam()},
                {.threads = 1, .arena_bytes = int64_t{16} << 20});
      const Tensor c = other.tensor({30, 40}, dtypes.product);
      const Tensor a = other.tensor({2601, 30}, dtypes.operand).transposed();
      const Tensor b = other.tensor({2601, 40}, dtypes.operand);
      static_cast<void>(other.trace.cut());
      matmul(other.context, c, a, b, {.bias_N = other.tensor({40})});
      matmul_add(other.context, c, a, b);
      segments.push_back(other.trace.cut());
    }
    EXPECT_EQ(segments[0], segments[1]);
    const int64_t element = bytes_of(dtypes.operand);
    const int64_t c_bytes = 30 * 40 * bytes_of(dtypes.product);
    const int64_t operand_bytes = (30 + 40) * 2601 * element;
    ASSERT_EQ(segments[0].ops.size(), 2u);
    EXPECT_EQ(segments[0].ops[0],
              (BookedOp{"matmul", 2 * 30 * 40 * 2601, operand_bytes + 160, c_bytes}));
    EXPECT_EQ(segments[0].ops[1],
              (BookedOp{"matmul_add", 2 * 30 * 40 * 2601, operand_bytes + c_bytes, c_bytes}));
    EXPECT_EQ(segments[0].of(MemoryCategory::kWorkspace).bytes_net, 0);
  }
}

TEST(Matmul, RefusesWhatNoBackendHas) {
  Rig rig({.kind = DeviceKind::kMeta, .target = Target::kCudaSm90});
  const Tensor c = rig.tensor({2, 2});
  EXPECT_DEATH(matmul(rig.context, c, c, c, {}), "matmul has no backend for cuda-sm90 f32");
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Rig rig(kMeta);
  const Tensor c = rig.tensor({2, 2});
  EXPECT_DEATH(matmul(rig.context, c, rig.tensor({2, 3}), c, {}), "3 vs 2");
  EXPECT_DEATH(matmul(rig.context, c, rig.tensor({3, 2}), c, {}), "\\[2, 2\\] vs \\[3, 2\\]");
  EXPECT_DEATH(matmul(rig.context, c.transposed(), c, c, {}), "columns must be adjacent");
  EXPECT_DEATH(matmul(rig.context, c, rig.tensor({2, 2}, DType::kBf16), c, {}), "bf16 times f32");
  EXPECT_DEATH(matmul(rig.context, c, c, c, {.bias_N = rig.tensor({3})}), "\\[3\\] vs \\[2\\]");
  const Tensor wide = rig.tensor({2, 2, 2});
  const Tensor scattered{wide.data, DType::kF32, {2, 2}, {4, 2}};
  EXPECT_DEATH(matmul(rig.context, c, scattered, c, {}), "one of them must be 1");
}

}  // namespace
}  // namespace cadre::kernels
