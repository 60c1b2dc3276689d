// For attention_test.cpp: cases of shapes and masks, their operands, and the sums in double that
// the kernels are compared with.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "testing/test_support.h"

namespace cadre::kernels {

struct AttentionCase {
  int64_t B = 1;
  int64_t Q = 1;
  int64_t K = 1;
  int64_t H = 1;
  int64_t G = 1;
  int64_t D = 1;
  int64_t window = 0;
  bool documents = false;
  DType dtype = DType::kF32;
  bool fused = false;  // q, k, v and their gradients are parts of rows [q | k | v]
  float dropout = 0.0f;
  float relative_scale = 0.7f;  // times 1 / sqrt(D)
};

inline std::string name_of(const AttentionCase& c) {
  return concat("B", c.B, " Q", c.Q, " K", c.K, " H", c.H, " G", c.G, " D", c.D, " window",
                c.window, c.documents ? " documents " : " ", name_of(c.dtype),
                c.fused ? " fused" : "", " dropout ", c.dropout);
}

// Odd lengths around the sizes of tiles, and widths that are not multiples of a vector.
inline std::vector<AttentionCase> shapes_of_cases(DType dtype) {
  return {
      {.B = 2, .Q = 17, .K = 17, .H = 2, .G = 1, .D = 24, .dtype = dtype},
      {.B = 1, .Q = 64, .K = 64, .H = 1, .G = 1, .D = 32, .dtype = dtype},
      {.B = 1, .Q = 131, .K = 131, .H = 3, .G = 3, .D = 40, .dtype = dtype, .fused = true},
      {.B = 2, .Q = 65, .K = 65, .H = 4, .G = 2, .D = 48, .dtype = dtype, .fused = true},
      {.B = 1, .Q = 200, .K = 200, .H = 2, .G = 1, .D = 64, .window = 37, .dtype = dtype},
      {.B = 2,
       .Q = 200,
       .K = 200,
       .H = 2,
       .G = 2,
       .D = 64,
       .documents = true,
       .dtype = dtype,
       .fused = true},
      {.B = 1,
       .Q = 300,
       .K = 300,
       .H = 3,
       .G = 1,
       .D = 80,
       .window = 100,
       .documents = true,
       .dtype = dtype,
       .fused = true},
      {.B = 1, .Q = 97, .K = 97, .H = 1, .G = 1, .D = 128, .window = 2, .dtype = dtype},
      {.B = 1, .Q = 129, .K = 129, .H = 2, .G = 1, .D = 128, .dtype = dtype},
      {.B = 1, .Q = 70, .K = 70, .H = 1, .G = 1, .D = 7, .dtype = dtype},
      {.B = 2, .Q = 131, .K = 131, .H = 4, .G = 2, .D = 40, .dtype = dtype, .dropout = 0.3f},
      {.B = 2,
       .Q = 150,
       .K = 150,
       .H = 2,
       .G = 1,
       .D = 32,
       .window = 70,
       .documents = true,
       .dtype = dtype,
       .fused = true,
       .dropout = 0.1f},
  };
}

inline std::vector<AttentionCase> backward_cases() {
  std::vector<AttentionCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const std::vector<AttentionCase> more = shapes_of_cases(dtype);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

inline std::vector<AttentionCase> forward_cases() {
  std::vector<AttentionCase> cases = backward_cases();
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    cases.push_back({.dtype = dtype});
    // Rows that see no key of a block their neighbours see, at scales whose products with the
    // place holder of a maximum are rounded.
    for (const int64_t D : {50, 200}) {
      cases.push_back({.B = 1,
                       .Q = 200,
                       .K = 200,
                       .H = 1,
                       .G = 1,
                       .D = D,
                       .window = 37,
                       .dtype = dtype,
                       .relative_scale = 1.0f});
      cases.push_back({.B = 1,
                       .Q = 200,
                       .K = 200,
                       .H = 1,
                       .G = 1,
                       .D = D,
                       .documents = true,
                       .dtype = dtype,
                       .relative_scale = 1.0f});
    }
    cases.push_back({.Q = 97, .K = 97, .D = 128, .window = 1, .dtype = dtype});
    cases.push_back({.B = 2, .Q = 1, .K = 77, .H = 4, .G = 2, .D = 64, .dtype = dtype});
    cases.push_back({.B = 1,
                     .Q = 5,
                     .K = 150,
                     .H = 2,
                     .G = 2,
                     .D = 48,
                     .window = 20,
                     .dtype = dtype,
                     .fused = true});
    cases.push_back(
        {.B = 2, .Q = 100, .K = 170, .H = 2, .G = 1, .D = 24, .documents = true, .dtype = dtype});
    cases.push_back(
        {.B = 2, .Q = 9, .K = 70, .H = 2, .G = 1, .D = 24, .dtype = dtype, .dropout = 0.5f});
  }
  return cases;
}

struct AttentionOperands {
  AttentionOperands(testing::Rig& on, const AttentionCase& what)
      : rig(on),
        c(what),
        options{
            .scale = what.relative_scale / std::sqrt(static_cast<float>(what.D)),
            .window = what.window,
            .dropout = {.probability = what.dropout,
                        .key = {.seed = 0x123456789ABCDEF0, .stream = 0xFEDCBA9876543210},
                        // So that numbers of blocks pass 2^32 within a tile.
                        .first_row = (int64_t{1} << 32) / (what.H + 3) / ((what.K + 3) / 4) - 70,
                        .heads = what.H + 3,
                        .first_head = 2}} {
    const int64_t width = (c.H + 2 * c.G) * c.D;
    if (c.fused) {
      const Tensor rows = rig.random({c.B, c.K, width}, 1, c.dtype);
      const Tensor gradients = rig.random({c.B, c.K, width}, 2, c.dtype);
      q = last_positions(part(rows, 0, c.H));
      k = part(rows, c.H, c.G);
      v = part(rows, c.H + c.G, c.G);
      dq = last_positions(part(gradients, 0, c.H));
      dk = part(gradients, c.H, c.G);
      dv = part(gradients, c.H + c.G, c.G);
    } else {
      q = rig.random({c.B, c.Q, c.H, c.D}, 1, c.dtype);
      k = rig.random({c.B, c.K, c.G, c.D}, 2, c.dtype);
      v = rig.random({c.B, c.K, c.G, c.D}, 3, c.dtype);
      dq = rig.random({c.B, c.Q, c.H, c.D}, 4, c.dtype);  // overwritten
      dk = rig.random({c.B, c.K, c.G, c.D}, 5, c.dtype);
      dv = rig.random({c.B, c.K, c.G, c.D}, 6, c.dtype);
    }
    o = rig.random({c.B, c.Q, c.H, c.D}, 7, c.dtype);
    dout = rig.random({c.B, c.Q, c.H, c.D}, 8, c.dtype);
    lse = rig.random({c.B, c.H, c.Q}, 9);
    if (c.documents) {
      place_documents();
    }
  }

  void forward() const { attention_forward(rig.context, o, lse, q, k, v, start, options); }
  void backward() const {
    attention_backward(rig.context, dq, dk, dv, dout, o, lse, q, k, v, start, options);
  }

  void copy_inputs_of(const AttentionOperands& other) const {
    testing::set_values(q, testing::values_of(other.q));
    testing::set_values(k, testing::values_of(other.k));
    testing::set_values(v, testing::values_of(other.v));
  }

  int64_t first_visible(int64_t b, int64_t position) const {
    const int64_t of_window = c.window > 0 ? position - c.window + 1 : 0;
    const int64_t of_document = c.documents ? starts[static_cast<size_t>(b * c.K + position)] : 0;
    return std::max<int64_t>({0, of_window, of_document});
  }

  // What the probability of key j is multiplied by for query i.
  double factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const AttentionDropout& dropout = options.dropout;
    const int64_t row = dropout.first_row + b * c.K + c.K - c.Q + i;
    const int64_t words_of_head = (c.K + 3) / 4 * 4;
    const int64_t head = row * dropout.heads + dropout.first_head + h;
    const double word = random_word_at(dropout.key, head * words_of_head + j);
    const auto probability = static_cast<double>(dropout.probability);
    return word < probability * 0x1p32 ? 0.0 : 1.0 / (1.0 - probability);
  }

  testing::Rig& rig;
  AttentionCase c;
  AttentionOptions options;
  Tensor q, k, v, o, lse, dout, dq, dk, dv, start;
  std::vector<int32_t> starts;

 private:
  Tensor part(const Tensor& rows, int64_t first, int64_t heads) const {
    const Box box{.first = {0, 0, first * c.D}, .size = {c.B, c.K, heads * c.D}};
    return rows.slice(box).split(2, heads);
  }
  Tensor last_positions(const Tensor& all) const {
    return all.slice({.first = {0, c.K - c.Q, 0, 0}, .size = {c.B, c.Q, c.H, c.D}});
  }
  // Documents of 1, 2, 3, ... and then 64 positions, cut elsewhere in every sequence.
  void place_documents() {
    for (int64_t b = 0; b < c.B; ++b) {
      int32_t first = 0;
      int32_t length = 1 + static_cast<int32_t>(b);
      for (int32_t position = 0; position < c.K; ++position) {
        if (position == first + length) {
          first = position;
          length = position > 40 ? 64 + static_cast<int32_t>(b) : length + 1;
        }
        starts.push_back(first);
      }
    }
    start = rig.ids({c.B, c.K}, starts);
  }
};

struct DoubleForward {
  std::vector<float> o;
  std::vector<float> lse;
};

struct DoubleBackward {
  std::vector<float> dq, dk, dv;
};

// Element [b, t, h, d] of a row-major list.
struct Index4 {
  int64_t T = 0;
  int64_t H = 0;
  int64_t D = 0;
  size_t operator()(int64_t b, int64_t t, int64_t h, int64_t d) const {
    return static_cast<size_t>(((b * T + t) * H + h) * D + d);
  }
};

// Calls body(b, h, i, first visible key, weights of the keys from there on, log of their sum).
template <typename Body>
void for_each_row_in_double(const AttentionOperands& x, const Body& body) {
  const auto& c = x.c;
  const Index4 at_q{c.Q, c.H, c.D};
  const Index4 at_k{c.K, c.G, c.D};
  const std::vector<float> q = testing::values_of(x.q);
  const std::vector<float> k = testing::values_of(x.k);
  for (int64_t b = 0; b < c.B; ++b) {
    for (int64_t h = 0; h < c.H; ++h) {
      for (int64_t i = 0; i < c.Q; ++i) {
        const int64_t position = c.K - c.Q + i;
        const int64_t first = x.first_visible(b, position);
        std::vector<double> weights;
        double largest = -1e300;
        for (int64_t j = first; j <= position; ++j) {
          double score = 0.0;
          for (int64_t d = 0; d < c.D; ++d) {
            score += static_cast<double>(q[at_q(b, i, h, d)]) *
                     static_cast<double>(k[at_k(b, j, h / (c.H / c.G), d)]);
          }
          weights.push_back(static_cast<double>(x.options.scale) * score);
          largest = std::max(largest, weights.back());
        }
        double sum = 0.0;
        for (double& weight : weights) {
          weight = std::exp(weight - largest);
          sum += weight;
        }
        for (double& weight : weights) {
          weight /= sum;
        }
        body(b, h, i, first, weights, largest + std::log(sum));
      }
    }
  }
}

inline DoubleForward forward_in_double(const AttentionOperands& x) {
  const auto& c = x.c;
  const Index4 at_k{c.K, c.G, c.D};
  const std::vector<float> v = testing::values_of(x.v);
  DoubleForward result{.o = std::vector<float>(static_cast<size_t>(c.B * c.Q * c.H * c.D)),
                       .lse = std::vector<float>(static_cast<size_t>(c.B * c.H * c.Q))};
  for_each_row_in_double(x, [&](int64_t b, int64_t h, int64_t i, int64_t first,
                                const std::vector<double>& weights, double log_sum) {
    result.lse[static_cast<size_t>((b * c.H + h) * c.Q + i)] = static_cast<float>(log_sum);
    for (int64_t d = 0; d < c.D; ++d) {
      double sum = 0.0;
      for (size_t j = 0; j < weights.size(); ++j) {
        const int64_t key = first + static_cast<int64_t>(j);
        sum += x.factor(b, h, i, key) * weights[j] *
               static_cast<double>(v[at_k(b, key, h / (c.H / c.G), d)]);
      }
      result.o[Index4{c.Q, c.H, c.D}(b, i, h, d)] = static_cast<float>(sum);
    }
  });
  return result;
}

// From the weights themselves; o and lse are not used.
inline DoubleBackward backward_in_double(const AttentionOperands& x) {
  const auto& c = x.c;
  const Index4 at_q{c.Q, c.H, c.D};
  const Index4 at_k{c.K, c.G, c.D};
  const std::vector<float> q = testing::values_of(x.q);
  const std::vector<float> k = testing::values_of(x.k);
  const std::vector<float> v = testing::values_of(x.v);
  const std::vector<float> dout = testing::values_of(x.dout);
  std::vector<double> dq(q.size()), dk(k.size()), dv(v.size());
  const auto scale = static_cast<double>(x.options.scale);
  for_each_row_in_double(x, [&](int64_t b, int64_t h, int64_t i, int64_t first,
                                const std::vector<double>& weights, double) {
    const int64_t g = h / (c.H / c.G);
    std::vector<double> dp(weights.size());
    double mean = 0.0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const double factor = x.factor(b, h, i, first + static_cast<int64_t>(j));
      for (int64_t d = 0; d < c.D; ++d) {
        const size_t key = at_k(b, first + static_cast<int64_t>(j), g, d);
        dp[j] += factor * static_cast<double>(dout[at_q(b, i, h, d)]) * static_cast<double>(v[key]);
        dv[key] += factor * weights[j] * static_cast<double>(dout[at_q(b, i, h, d)]);
      }
      mean += weights[j] * dp[j];
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      const double ds = scale * weights[j] * (dp[j] - mean);
      for (int64_t d = 0; d < c.D; ++d) {
        const size_t key = at_k(b, first + static_cast<int64_t>(j), g, d);
        dq[at_q(b, i, h, d)] += ds * static_cast<double>(k[key]);
        dk[key] += ds * static_cast<double>(q[at_q(b, i, h, d)]);
      }
    }
  });
  return {.dq = std::vector<float>(dq.begin(), dq.end()),
          .dk = std::vector<float>(dk.begin(), dk.end()),
          .dv = std::vector<float>(dv.begin(), dv.end())};
}

}  // namespace cadre::kernels
