// Attention against a row worked out by hand, against sums in double precision that know nothing of
// tiles, and its backward pass against central differences. Every backend passes the same tests.

#include "kernels/attention.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/attention_test.h"
#include "testing/test_support.h"

namespace cadre::kernels {
namespace {

using testing::expect_near;
using testing::kMeta;
using testing::Rig;
using testing::values_of;

class AttentionTest : public ::testing::TestWithParam<Target> {
 protected:
  Rig rig_of(int threads = 1) const {
    return Rig({.kind = DeviceKind::kCpu, .target = GetParam()}, {.threads = threads});
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest, ::testing::ValuesIn(testing::tested_targets()),
                         testing::target_name);

TEST_P(AttentionTest, ForwardMatchesHandComputedRows) {
  Rig rig = rig_of();
  // One head of two channels, two positions. Position 1 has scores 2 (1 + 0) = 2 and 2 (0 + 1) = 2
  // with scale 2: equal weights. Position 0 sees itself alone.
  const Tensor q = rig.tensor({1, 2, 1, 2}, {5, 7, 1, 1});
  const Tensor k = rig.tensor({1, 2, 1, 2}, {1, 0, 0, 1});
  const Tensor v = rig.tensor({1, 2, 1, 2}, {3, -1, 5, 2});
  const Tensor o = rig.tensor({1, 2, 1, 2});
  const Tensor lse = rig.tensor({1, 1, 2});
  attention_forward(rig.context, o, lse, q, k, v, {}, {.scale = 2.0f});
  expect_near(o, rig.tensor({1, 2, 1, 2}, {3, -1, 4, 0.5f}), 1e-6f);
  expect_near(lse, rig.tensor({1, 1, 2}, {10, 2 + std::log(2.0f)}), 1e-6f);
}

TEST_P(AttentionTest, ForwardMatchesSumsInDouble) {
  for (const AttentionCase& c : forward_cases()) {
    SCOPED_TRACE(name_of(c));
    Rig rig = rig_of(2);
    AttentionOperands operands(rig, c);
    operands.forward();
    const DoubleForward expected = forward_in_double(operands);
    const float tolerance = c.dtype == DType::kF32 ? 3e-6f : c.dtype == DType::kF16 ? 2e-3f : 1e-2f;
    expect_near(operands.o, rig.tensor(operands.o.shape, expected.o), tolerance);
    expect_near(operands.lse, rig.tensor(operands.lse.shape, expected.lse), 3e-6f);
  }
}

TEST_P(AttentionTest, BackwardMatchesSumsInDouble) {
  for (const AttentionCase& c : backward_cases()) {
    SCOPED_TRACE(name_of(c));
    Rig rig = rig_of(2);
    AttentionOperands operands(rig, c);
    operands.forward();
    operands.backward();
    const DoubleBackward expected = backward_in_double(operands);
    const float tolerance = c.dtype == DType::kF32 ? 1e-5f : c.dtype == DType::kF16 ? 4e-3f : 2e-2f;
    expect_near(operands.dq, rig.tensor(operands.dq.shape, expected.dq), tolerance);
    expect_near(operands.dk, rig.tensor(operands.dk.shape, expected.dk), tolerance);
    expect_near(operands.dv, rig.tensor(operands.dv.shape, expected.dv), tolerance);
  }
}

TEST_P(AttentionTest, BackwardMatchesCentralDifferences) {
  for (AttentionCase c :
       {AttentionCase{.B = 2, .Q = 5, .K = 5, .H = 4, .G = 2, .D = 6},
        AttentionCase{.B = 1, .Q = 9, .K = 9, .H = 3, .G = 1, .D = 8, .window = 4},
        AttentionCase{.B = 2, .Q = 7, .K = 7, .H = 2, .G = 2, .D = 5, .documents = true},
        AttentionCase{.B = 2, .Q = 7, .K = 7, .H = 4, .G = 2, .D = 5, .dropout = 0.4f}}) {
    SCOPED_TRACE(name_of(c));
    Rig rig = rig_of();
    AttentionOperands operands(rig, c);
    operands.forward();
    operands.backward();
    const auto loss = [&] {
      operands.forward();
      return testing::dot(operands.dout, operands.o);
    };
    testing::expect_central_differences(operands.dq, operands.q, loss);
    testing::expect_central_differences(operands.dk, operands.k, loss);
    testing::expect_central_differences(operands.dv, operands.v, loss);
  }
}

TEST_P(AttentionTest, RoundsTheInputsAndNothingElseOfNote) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const AttentionCase narrow{
        .B = 1, .Q = 70, .K = 70, .H = 2, .G = 1, .D = 48, .dtype = dtype, .fused = true};
    Rig rig = rig_of();
    AttentionOperands operands(rig, narrow);
    AttentionCase wide = narrow;
    wide.dtype = DType::kF32;
    AttentionOperands rounded(rig, wide);
    rounded.copy_inputs_of(operands);
    operands.forward();
    rounded.forward();
    expect_near(operands.o, rounded.o, dtype == DType::kF16 ? 2e-3f : 8e-3f);
    expect_near(operands.lse, rounded.lse, 3e-6f);
  }
}

TEST_P(AttentionTest, FirstPositionOfADocumentSeesItselfAlone) {
  Rig rig = rig_of();
  AttentionOperands operands(
      rig, {.B = 2, .Q = 75, .K = 75, .H = 2, .G = 1, .D = 16, .documents = true});
  operands.forward();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 75; ++i) {
      if (operands.starts[static_cast<size_t>(b * 75 + i)] == i) {
        const Box value{.first = {b, i, 0, 0}, .size = {1, 1, 1, 16}};
        expect_near(operands.o.slice(value), operands.v.slice(value), 1e-6f);
      }
    }
  }
}

TEST_P(AttentionTest, ThreadsDoNotChangeABit) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
      Rig rig = rig_of(threads);
      AttentionOperands operands(rig, {.B = 2,
                                       .Q = 150,
                                       .K = 150,
                                       .H = 4,
                                       .G = 2,
                                       .D = 40,
                                       .documents = true,
                                       .dtype = dtype,
                                       .dropout = 0.2f});
      operands.forward();
      operands.backward();
      std::vector<float> all;
      for (const Tensor& result :
           {operands.o, operands.lse, operands.dq, operands.dk, operands.dv}) {
        const std::vector<float> values = values_of(result);
        all.insert(all.end(), values.begin(), values.end());
      }
      results.push_back(all);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

// With equal scores and values that are unit vectors, channel j of an output is the probability of
// key j: what is dropped can be read off.
std::vector<float> probabilities_of(const AttentionOperands& x) {
  testing::set_values(x.q, std::vector<float>(static_cast<size_t>(x.q.shape.elements())));
  std::vector<float> units(static_cast<size_t>(x.v.shape.elements()));
  const Index4 at{x.c.K, x.c.G, x.c.D};
  for (int64_t b = 0; b < x.c.B; ++b) {
    for (int64_t j = 0; j < x.c.K; ++j) {
      for (int64_t g = 0; g < x.c.G; ++g) {
        units[at(b, j, g, j)] = 1.0f;
      }
    }
  }
  testing::set_values(x.v, units);
  x.forward();
  return values_of(x.o);
}

TEST_P(AttentionTest, DropsAtTheRateThatIsAskedForAndIndependently) {
  constexpr int64_t kLength = 96;
  Rig rig = rig_of();
  AttentionOperands x(
      rig, {.B = 2, .Q = kLength, .K = kLength, .H = 3, .G = 1, .D = kLength, .dropout = 0.25f});
  const std::vector<float> probabilities = probabilities_of(x);
  const Index4 at{kLength, 3, kLength};
  const auto dropped = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return probabilities[at(b, i, h, j)] == 0.0f;
  };
  // How often a pair is dropped, and how often a neighbour in some direction is as well.
  struct Neighbour {
    int64_t b, h, i, j;
  };
  const std::vector<Neighbour> neighbours = {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 2, 0, 0},
                                             {0, 0, 1, 0}, {0, 0, 4, 0}, {0, 0, 0, 1}, {0, 0, 0, 2},
                                             {0, 0, 0, 4}, {0, 0, 1, 1}, {0, 1, 1, 0}};
  for (const Neighbour& n : neighbours) {
    double both = 0.0, pairs = 0.0;
    for (int64_t b = 0; b + n.b < 2; ++b) {
      for (int64_t h = 0; h + n.h < 3; ++h) {
        for (int64_t i = 0; i + n.i < kLength; ++i) {
          for (int64_t j = 0; j + n.j <= i; ++j) {
            pairs += 1.0;
            both += dropped(b, h, i, j) && dropped(b + n.b, h + n.h, i + n.i, j + n.j) ? 1.0 : 0.0;
          }
        }
      }
    }
    const bool itself = n.b + n.h + n.i + n.j == 0;
    const double rate = itself ? 0.25 : 0.25 * 0.25;
    // Five standard deviations.
    EXPECT_NEAR(both / pairs, rate, 5.0 * std::sqrt(rate * (1.0 - rate) / pairs))
        << n.b << " " << n.h << " " << n.i << " " << n.j;
  }
  // What is kept makes up for what is dropped.
  for (int64_t j = 0; j < kLength; ++j) {
    const float probability = probabilities[at(1, kLength - 1, 2, j)];
    if (probability != 0.0f) {
      EXPECT_NEAR(probability, 1.0f / 0.75f / kLength, 1e-6f);
    }
  }
}

TEST_P(AttentionTest, TheLogOfTheSumKnowsNothingOfDropout) {
  AttentionCase c{.B = 1, .Q = 100, .K = 100, .H = 2, .G = 1, .D = 16, .dropout = 0.5f};
  Rig rig = rig_of();
  AttentionOperands dropping(rig, c);
  c.dropout = 0.0f;
  AttentionOperands whole(rig, c);
  dropping.forward();
  whole.forward();
  EXPECT_EQ(values_of(dropping.lse), values_of(whole.lse));
  EXPECT_NE(values_of(dropping.o), values_of(whole.o));
}

// A rank of a layout holds some of the sequences and some of the heads.
TEST_P(AttentionTest, DropsTheSameOnARankThatHoldsAPart) {
  Rig rig = rig_of();
  const AttentionCase c{.B = 3, .Q = 75, .K = 75, .H = 4, .G = 2, .D = 16, .dropout = 0.3f};
  AttentionOperands whole(rig, c);
  whole.forward();
  whole.backward();
  AttentionCase less = c;
  less.B = 1;
  less.H = 2;
  less.G = 1;
  AttentionOperands part(rig, less);
  const auto cut = [](const Tensor& all, int64_t first_head, int64_t heads) {
    return all.slice({.first = {2, 0, first_head, 0}, .size = {1, 75, heads, 16}});
  };
  testing::set_values(part.q, values_of(cut(whole.q, 2, 2)));
  testing::set_values(part.k, values_of(cut(whole.k, 1, 1)));
  testing::set_values(part.v, values_of(cut(whole.v, 1, 1)));
  testing::set_values(part.dout, values_of(cut(whole.dout, 2, 2)));
  part.options.dropout = whole.options.dropout;
  part.options.dropout.first_row += 2 * 75;
  part.options.dropout.first_head += 2;
  part.forward();
  part.backward();
  EXPECT_EQ(values_of(part.o), values_of(cut(whole.o, 2, 2)));
  EXPECT_EQ(values_of(part.dq), values_of(cut(whole.dq, 2, 2)));
  EXPECT_EQ(values_of(part.dk), values_of(cut(whole.dk, 1, 1)));
  EXPECT_EQ(values_of(part.dv), values_of(cut(whole.dv, 1, 1)));
}

TEST_P(AttentionTest, NanReachesEveryoneWhoSeesIt) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const int operand : {0, 1, 2}) {
      Rig rig = rig_of();
      AttentionOperands operands(
          rig, {.B = 1, .Q = 40, .K = 40, .H = 1, .G = 1, .D = 8, .dtype = dtype});
      const Tensor poisoned = operand == 0 ? operands.q : operand == 1 ? operands.k : operands.v;
      testing::store(poisoned, 20 * poisoned.strides[1], std::numeric_limits<float>::quiet_NaN());
      operands.forward();
      const std::vector<float> o = values_of(operands.o);
      EXPECT_TRUE(std::isnan(o[20 * 8])) << "operand " << operand;
      EXPECT_EQ(std::isnan(o[39 * 8]), operand != 0) << "operand " << operand;
      EXPECT_FALSE(std::isnan(o[0]));
      operands.backward();
      EXPECT_TRUE(std::isnan(values_of(operands.dq)[20 * 8])) << "operand " << operand;
      EXPECT_TRUE(std::isnan(values_of(operands.dk)[0])) << "operand " << operand;
    }
  }
}

TEST_P(AttentionTest, SurvivesScoresFarApart) {
  Rig rig = rig_of();
  AttentionOperands operands(rig, {.B = 1, .Q = 130, .K = 130, .H = 1, .G = 1, .D = 16});
  for (int64_t i = 0; i < 130; ++i) {  // the later, the larger: the running maximum keeps rising
    for (int64_t d = 0; d < 16; ++d) {
      testing::store(operands.q, i * operands.q.strides[1] + d, 3.0f);
      testing::store(operands.k, i * operands.k.strides[1] + d, static_cast<float>(i) - 40.0f);
    }
  }
  operands.forward();
  const DoubleForward expected = forward_in_double(operands);
  expect_near(operands.o, rig.tensor(operands.o.shape, expected.o), 3e-6f);
  expect_near(operands.lse, rig.tensor(operands.lse.shape, expected.lse), 3e-6f);
}

TEST_P(AttentionTest, BooksTheSameOnMeta) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    std::vector<Segment> segments;
    for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kMeta}) {
      Rig rig({.kind = kind, .target = GetParam()}, {.threads = 2});
      AttentionOperands operands(rig, {.B = 2,
                                       .Q = 9,
                                       .K = 9,
                                       .H = 4,
                                       .G = 2,
                                       .D = 8,
                                       .window = 3,
                                       .dtype = dtype,
                                       .dropout = 0.1f});
      rig.trace.cut();
      operands.forward();
      operands.backward();
      segments.push_back(rig.trace.cut());
    }
    EXPECT_EQ(segments[0], segments[1]);
    EXPECT_EQ(segments[0].of(MemoryCategory::kWorkspace).bytes_net, 0);
  }
}

TEST(Attention, BooksThePairsThatAreSeen) {
  Rig rig(kMeta);
  const AttentionCase c{.B = 2, .Q = 5, .K = 5, .H = 4, .G = 2, .D = 8};
  AttentionOperands operands(rig, c);
  rig.trace.cut();
  operands.forward();
  operands.backward();
  const std::vector<BookedOp> ops = rig.trace.cut().ops;
  ASSERT_EQ(ops.size(), 2u);
  // 1 + 2 + 3 + 4 + 5 = 15 pairs of 8 heads in all, 8 channels: 960 multiplications a product. q
  // and o have 320 elements, k and v 160, lse 40.
  EXPECT_EQ(ops[0], (BookedOp{"attention_forward", 2 * 2 * 960, 4 * 640, 4 * 360}));
  EXPECT_EQ(ops[1], (BookedOp{"attention_backward", 5 * 2 * 960, 4 * 1320, 4 * 640}));

  AttentionCase windowed = c;
  windowed.Q = 3;
  windowed.window = 4;
  AttentionOperands few(rig, windowed);
  rig.trace.cut();
  few.forward();
  // Positions 2, 3 and 4 see 3, 4 and 4 keys.
  EXPECT_EQ(rig.trace.cut().ops.at(0).flops, 2 * 2 * 8 * 8 * 11);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Rig rig(kMeta);
  const Tensor q = rig.tensor({1, 4, 3, 8});
  const Tensor k = rig.tensor({1, 4, 2, 8});
  const Tensor lse = rig.tensor({1, 3, 4});
  EXPECT_DEATH(attention_forward(rig.context, q, lse, q, k, k, {}, {}),
               "3 heads over 2 key/value heads");
  const Tensor shorter = rig.tensor({1, 3, 3, 8});
  EXPECT_DEATH(attention_forward(rig.context, q, lse, q, shorter, shorter, {}, {}),
               "4 queries, 3 keys");
  EXPECT_DEATH(attention_forward(rig.context, q, lse, q, q, q, lse, {}), "wanted i32");
  const auto dropping = [&](const AttentionDropout& dropout) {
    attention_forward(rig.context, q, lse, q, q, q, {}, {.dropout = dropout});
  };
  EXPECT_DEATH(dropping({.probability = 1.0f, .heads = 3}), "dropout of 1");
  EXPECT_DEATH(dropping({.probability = 0.1f, .heads = 4, .first_head = 2}),
               "row 0, 3 heads from 2 of 4");
}

}  // namespace
}  // namespace cadre::kernels
