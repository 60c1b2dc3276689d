#include "kernels/elementwise.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/pointwise_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

class ElementwiseTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig{{.kind = DeviceKind::kCpu, .target = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Targets, ElementwiseTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

// Subnormal, huge, halfway between two neighbours, infinite.
std::vector<float> awkward_values() {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,      -0.0f,       1.0f,        -1.0f,        1e-41f,
                               -1e-45f,   6e-8f,       -3e-8f,      2.98e-8f,     65504.0f,
                               65519.99f, 65520.0f,    -1e30f,      3.4e38f,      infinity,
                               -infinity, 1.00390625f, 1.01171875f, 1.000488281f, 1.001464844f};
  for (int i = 0; i < 997; ++i) {
    values.push_back(normal_at({.seed = 9, .stream = 0}, i) *
                     std::pow(10.0f, static_cast<float>(i % 17 - 8)));
  }
  return values;
}

TEST_P(ElementwiseTest, ConvertRoundsToNearestEven) {
  const std::vector<float> values = awkward_values();
  const auto N = static_cast<int64_t>(values.size());
  for (const DType from : kActivationDTypes) {
    const Tensor x = rig.tensor({N}, values, from);
    for (const DType to : kActivationDTypes) {
      const Tensor y = rig.tensor({N}, to);
      convert(rig.context, y, x);
      std::vector<float> expected = values_of(x);
      for (float& value : expected) {
        value = rounded(value, to);
      }
      EXPECT_EQ(values_of(y), expected) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST_P(ElementwiseTest, ConvertKeepsNaN) {
  for (const DType from : kActivationDTypes) {
    for (const DType to : kActivationDTypes) {
      const Tensor x = rig.tensor({40}, from);
      const Tensor y = rig.tensor({40}, to);
      testing::store(x, 3, std::numeric_limits<float>::quiet_NaN());
      testing::store(x, 39, std::numeric_limits<float>::quiet_NaN());
      if (from == DType::kF32) {
        x.begin<float>()[3] = std::bit_cast<float>(0x7F800001u);  // its upper half is infinity
      }
      convert(rig.context, y, x);
      EXPECT_TRUE(std::isnan(values_of(y)[3])) << name_of(from) << " to " << name_of(to);
      EXPECT_TRUE(std::isnan(values_of(y)[39]));
      EXPECT_EQ(values_of(y)[4], 0.0f);
    }
  }
}

TEST_P(ElementwiseTest, WalksStridesOfAnyRank) {
  const Tensor source = rig.random({2, 3, 40}, 1);
  const Tensor heads = source.split(2, 5).slice({.first = {0, 1, 1, 0}, .size = {2, 2, 3, 7}});
  const Tensor packed = rig.tensor({2, 2, 3, 7}, DType::kBf16);
  convert(rig.context, packed, heads);
  std::vector<float> expected = values_of(heads);
  for (float& value : expected) {
    value = rounded(value, DType::kBf16);
  }
  EXPECT_EQ(values_of(packed), expected);
  const std::vector<float> before = values_of(source);
  clear(rig.context, heads);
  EXPECT_EQ(values_of(heads), std::vector<float>(84, 0.0f));
  convert(rig.context, heads, packed);
  EXPECT_EQ(values_of(heads), expected);
  // Nothing beside the view was touched.
  const std::vector<float> after = values_of(source);
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    changed += before[i] == after[i] ? 0 : 1;
  }
  EXPECT_LE(changed, 84);
}

TEST_P(ElementwiseTest, AddMayWriteOverEitherOperand) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor a = rig.random({3, 75}, 1, dtype);
    const Tensor b = rig.random({3, 75}, 2, dtype);
    const std::vector<float> expected = rounded_sums(a, b);
    const Tensor y = rig.tensor({3, 75}, dtype);
    add(rig.context, y, a, b);
    EXPECT_EQ(values_of(y), expected);
    const Tensor onto_b = copy_of(rig, b);
    add(rig.context, onto_b, a, onto_b);
    EXPECT_EQ(values_of(onto_b), expected);
    add(rig.context, a, a, b);
    EXPECT_EQ(values_of(a), expected);
  }
}

TEST_P(ElementwiseTest, ColumnSumAddsEveryRow) {
  for (const DType dtype : kActivationDTypes) {
    const Tensor sum = rig.tensor({3}, {0.5f, 0, 0});
    column_sum_add(rig.context, sum, rig.tensor({2, 3}, {1, 2, 3, 10, 20, 30}, dtype));
    EXPECT_EQ(values_of(sum), (std::vector<float>{11.5f, 22, 33}));
  }
  const Tensor x = rig.random({301, 90}, 1).columns(4, 85);
  const Tensor sum = rig.tensor({85});
  column_sum_add(rig.context, sum, x);
  std::vector<double> expected(85, 0.0);
  const std::vector<float> values = values_of(x);
  for (size_t i = 0; i < values.size(); ++i) {
    expected[i % 85] += static_cast<double>(values[i]);
  }
  expect_near(sum, rig.tensor({85}, {expected.begin(), expected.end()}), 1e-6f);
}

TEST_P(ElementwiseTest, GivesTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> bits;
  for (const int threads : {1, 2, 3}) {
    Rig other({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
    const Tensor x = other.random({1201, 41}, 1);
    const Tensor sum = other.tensor({41});
    const Tensor y = other.tensor({1201, 41}, DType::kBf16);
    column_sum_add(other.context, sum, x);
    convert(other.context, y, x);
    dropout(other.context, x, x, {.probability = 0.3f, .key = {.seed = 1}, .first_row = 5});
    add(other.context, x, x, x);
    const std::vector<float> results = joined({x, y, sum});
    bits = bits.empty() ? results : bits;
    EXPECT_EQ(results, bits) << threads << " threads";
  }
}

TEST_P(ElementwiseTest, DropoutKeepsWhatTheWordsSay) {
  const RandomKey key{.seed = 7, .stream = 11};
  for (const DType dtype : kActivationDTypes) {
    for (const int64_t D : {1, 2, 3, 4, 5, 30, 64, 101}) {
      const Tensor x = rig.random({6, D}, 1, dtype);
      const Tensor y = rig.random({6, D}, 2, dtype);
      dropout(rig.context, y, x, {.probability = 0.25f, .key = key, .first_row = 3});
      const std::vector<float> in = values_of(x);
      const std::vector<float> out = values_of(y);
      for (size_t i = 0; i < in.size(); ++i) {
        const bool keep = random_word_at(key, 3 * D + static_cast<int64_t>(i)) >= 0x40000000u;
        EXPECT_EQ(out[i], keep ? rounded(in[i] * (1.0f / 0.75f), dtype) : 0.0f) << i;
      }
    }
  }
}

TEST_P(ElementwiseTest, DropoutDoesNotDependOnHowRowsAreSplit) {
  const DropoutOptions options{.probability = 0.5f, .key = {.seed = 3}, .first_row = 0};
  const Tensor x = rig.random({10, 33}, 1);
  const Tensor whole = rig.tensor({10, 33});
  const Tensor parts = rig.tensor({10, 33});
  dropout(rig.context, whole, x, options);
  for (const int64_t first : {0, 3, 4}) {
    const int64_t count = first == 0 ? 3 : first == 3 ? 1 : 6;
    DropoutOptions shifted = options;
    shifted.first_row = first;
    dropout(rig.context, parts.rows(first, count), x.rows(first, count), shifted);
  }
  EXPECT_EQ(values_of(parts), values_of(whole));
  dropout(rig.context, x, x, options);
  EXPECT_EQ(values_of(x), values_of(whole));
}

TEST_P(ElementwiseTest, DropoutKeepsTheMean) {
  constexpr int64_t N = 100000;
  const Tensor x = rig.tensor({N / 100, 100}, std::vector<float>(N, 1.0f));
  for (const float probability : {0.0f, 0.1f, 0.9f}) {
    const Tensor y = rig.tensor({N / 100, 100});
    dropout(rig.context, y, x, {.probability = probability, .key = {.seed = 5}, .first_row = 0});
    const std::vector<float> values = values_of(y);
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double p = static_cast<double>(probability);
    const double deviation = std::sqrt(p / (1.0 - p) / N);  // of the mean
    EXPECT_NEAR(sum / N, 1.0, 4.0 * deviation + 1e-6) << probability;
  }
  // Another step's stream drops others.
  const Tensor one = rig.tensor({N / 100, 100});
  const Tensor two = rig.tensor({N / 100, 100});
  dropout(rig.context, one, x,
          {.probability = 0.5f, .key = {.seed = 5, .stream = 1}, .first_row = 0});
  dropout(rig.context, two, x,
          {.probability = 0.5f, .key = {.seed = 5, .stream = 2}, .first_row = 0});
  EXPECT_NE(values_of(one), values_of(two));
}

TEST_P(ElementwiseTest, BooksTheSameOnMeta) {
  expect_same_booking(GetParam(), [](Rig& where) {
    const Tensor x = where.tensor({300, 96});
    const Tensor narrow = where.tensor({300, 96}, DType::kBf16);
    convert(where.context, narrow, x);
    add(where.context, x, x, x);
    clear(where.context, x);
    column_sum_add(where.context, where.tensor({96}), x);
    dropout(where.context, x, x, {.probability = 0.5f, .key = {}, .first_row = 0});
  });
}

TEST(Elementwise, BooksItsCost) {
  Rig rig(kMeta);
  const Tensor x = rig.tensor({3, 10});
  const Tensor narrow = rig.tensor({3, 10}, DType::kBf16);
  const Tensor sum = rig.tensor({10});
  rig.trace.cut();
  convert(rig.context, narrow, x);
  add(rig.context, x, x, x);
  clear(rig.context, x);
  column_sum_add(rig.context, sum, x);
  const std::vector<BookedOp> expected = {{"convert", 0, 120, 60},
                                          {"add", 30, 240, 120},
                                          {"clear", 0, 0, 120},
                                          {"column_sum_add", 30, 160, 40}};
  EXPECT_EQ(rig.trace.cut().ops, expected);
}

}  // namespace
}  // namespace cadre::kernels
