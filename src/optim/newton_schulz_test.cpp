// The iteration against the same one in double, and what it is for: singular values near 1.

#include "optim/newton_schulz.h"

#include <algorithm>
#include <cmath>

#include "testing/test_support.h"

namespace cadre::optim {
namespace {

using testing::kCpu;
using testing::Rig;
using testing::values_of;

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(ConstTensor x) {
  const std::vector<float> values = values_of(x);
  const auto columns = static_cast<size_t>(x.shape[1]);
  Matrix result(static_cast<size_t>(x.shape[0]), std::vector<double>(columns));
  for (size_t i = 0; i < values.size(); ++i) {
    result[i / columns][i % columns] = static_cast<double>(values[i]);
  }
  return result;
}

Matrix transposed(const Matrix& x) {
  Matrix result(x[0].size(), std::vector<double>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x[0].size(); ++j) {
      result[j][i] = x[i][j];
    }
  }
  return result;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) {
        result[i][j] += a[i][k] * b[k][j];
      }
    }
  }
  return result;
}

// a p + b q
Matrix mixed(double a, const Matrix& p, double b, const Matrix& q) {
  Matrix result = p;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = 0; j < p[0].size(); ++j) {
      result[i][j] = a * p[i][j] + b * q[i][j];
    }
  }
  return result;
}

// X (X^T X) is (X X^T) X, so that the reference needs no case for tall matrices.
Matrix orthogonalised(Matrix x, int64_t steps) {
  double squares = 0.0;
  for (const std::vector<double>& row : x) {
    for (const double value : row) {
      squares += value * value;
    }
  }
  x = mixed(1.0 / (std::sqrt(squares) + 1e-7), x, 0.0, x);
  for (int64_t step = 0; step < steps; ++step) {
    const Matrix gram = product(x, transposed(x));
    const Matrix polynomial = mixed(-4.7750, gram, 2.0315, product(gram, gram));
    x = mixed(3.4445, x, 1.0, product(polynomial, x));
  }
  return x;
}

// Eigenvalues of a symmetric matrix by Jacobi's rotations.
std::vector<double> eigenvalues(Matrix a) {
  const size_t size = a.size();
  for (int sweep = 0; sweep < 50; ++sweep) {
    for (size_t p = 0; p < size; ++p) {
      for (size_t q = p + 1; q < size; ++q) {
        const double angle = 0.5 * std::atan2(2.0 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle);
        const double s = std::sin(angle);
        for (size_t k = 0; k < size; ++k) {
          const double left = a[k][p];
          a[k][p] = c * left - s * a[k][q];
          a[k][q] = s * left + c * a[k][q];
        }
        for (size_t k = 0; k < size; ++k) {
          const double upper = a[p][k];
          a[p][k] = c * upper - s * a[q][k];
          a[q][k] = s * upper + c * a[q][k];
        }
      }
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < size; ++i) {
    values.push_back(a[i][i]);
  }
  std::ranges::sort(values);
  return values;
}

class NewtonSchulzTest : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, NewtonSchulzTest,
                         ::testing::Values(Shape{7, 7}, Shape{6, 17}, Shape{17, 6}, Shape{1, 9}));

TEST_P(NewtonSchulzTest, MatchesTheIterationInDouble) {
  Rig rig(kCpu);
  const Tensor x = rig.random(GetParam(), 1);
  const Matrix expected = orthogonalised(matrix_of(x), 5);
  orthogonalise(rig.context, x, 5);
  const Matrix actual = matrix_of(x);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[0].size(); ++j) {
      EXPECT_NEAR(actual[i][j], expected[i][j], 2e-5) << i << ", " << j;
    }
  }
  EXPECT_EQ(rig.workspace.used_bytes(), 0);
}

TEST_P(NewtonSchulzTest, BringsSingularValuesNearOne) {
  Rig rig(kCpu);
  const Tensor x = rig.random(GetParam(), 2);
  orthogonalise(rig.context, x, 5);
  const Matrix result = matrix_of(x);
  const bool tall = GetParam()[0] > GetParam()[1];
  const std::vector<double> squares =
      eigenvalues(tall ? product(transposed(result), result) : product(result, transposed(result)));
  EXPECT_GT(std::sqrt(squares.front()), 0.6);
  EXPECT_LT(std::sqrt(squares.back()), 1.3);
}

TEST(NewtonSchulz, OfNothingIsNothing) {
  Rig rig(kCpu);
  const Tensor x = rig.tensor({3, 4});
  orthogonalise(rig.context, x, 5);
  EXPECT_EQ(values_of(x), std::vector<float>(12, 0.0f));
}

TEST(NewtonSchulz, ScalesTallMatricesUp) {
  EXPECT_FLOAT_EQ(muon_scale({12, 3}), 2.0f);
  EXPECT_FLOAT_EQ(muon_scale({3, 12}), 1.0f);
}

}  // namespace
}  // namespace cadre::optim
