// Attention in plain C++: slow, obvious, and what the others are compared with. Sums are taken in
// fp32, one query after the other.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_backend.h"
#include "kernels/cpu/dropout.h"

namespace cadre::kernels::cpu {
namespace {

// Row `t` of head `h` of sequence `b`: D packed elements.
template <typename Element, typename Tensor4>
auto row(const Tensor4& tensor, int64_t b, int64_t t, int64_t h) {
  return tensor.template begin<Element>() + b * tensor.strides[0] + t * tensor.strides[1] +
         h * tensor.strides[2];
}

template <typename Tensor3>
auto& lse_at(const Tensor3& lse_BHQ, int64_t b, int64_t h, int64_t i) {
  return lse_BHQ.template begin<float>()[b * lse_BHQ.strides[0] + h * lse_BHQ.strides[1] + i];
}

template <typename Element>
float dot(const Element* a, const Element* b, int64_t count) {
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    sum += to_float(a[i]) * to_float(b[i]);
  }
  return sum;
}

template <typename Element>
void add_scaled(float* sum, float scale, const Element* vector, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] += scale * to_float(vector[i]);
  }
}

template <typename Element>
void store(Element* to, const float* from, float scale, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from_float<Element>(scale * from[i]);
  }
}

// Which keys of one query are dropped, and what the probabilities of the others are multiplied by.
class QueryDropout {
 public:
  template <typename Task>
  QueryDropout(const Task& task, int64_t b, int64_t h, int64_t i)
      : key_(task.options.dropout.key),
        threshold_(dropout_threshold(task.options.dropout.probability)),
        scale_(dropout_scale(task.options)),
        block_(dropout_block(task, b, h, i)) {}

  float factor(int64_t j) const {
    if (threshold_ == 0) {
      return 1.0f;
    }
    const auto at = static_cast<uint64_t>(j);
    return random_words(key_, block_ + at / 4)[at % 4] < threshold_ ? 0.0f : scale_;
  }

 private:
  RandomKey key_;
  uint32_t threshold_;
  float scale_;
  uint64_t block_;
};

int64_t forward_floats(const AttentionShape& shape) {
  return shape.K + shape.D;  // a row of scores and of the output
}

int64_t plan_forward_bytes(const AttentionShape& shape, int threads) {
  return threads * forward_floats(shape) * bytes_of(DType::kF32);
}

template <typename Element>
void forward(Context& context, const AttentionForwardTask& task, std::byte* workspace) {
  const int64_t Q = task.shape.Q;
  const int64_t H = task.shape.H;
  const int64_t D = task.shape.D;
  context.threads.run(task.shape.B * H * Q, [&](int64_t tile, int thread) {
    const int64_t b = tile / (H * Q);
    const int64_t h = tile / Q % H;
    const int64_t g = h / task.shape.heads_per_group();
    const int64_t i = tile % Q;
    float* const scores = reinterpret_cast<float*>(workspace) + thread * forward_floats(task.shape);
    float* const sum = scores + task.shape.K;

    const KeyRange keys = visible_keys(task, b, i);
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t j = keys.first; j < keys.end; ++j) {
      scores[j] = task.options.scale *
                  dot(row<Element>(task.q_BQHD, b, i, h), row<Element>(task.k_BKGD, b, j, g), D);
      largest = std::max(largest, scores[j]);
    }
    const QueryDropout dropout(task, b, h, i);
    float denominator = 0.0f;
    std::fill_n(sum, D, 0.0f);
    for (int64_t j = keys.first; j < keys.end; ++j) {
      const float weight = std::exp(scores[j] - largest);
      denominator += weight;
      add_scaled(sum, dropout.factor(j) * weight, row<Element>(task.v_BKGD, b, j, g), D);
    }
    store(row<Element>(task.o_BQHD, b, i, h), sum, 1.0f / denominator, D);
    lse_at(task.lse_BHQ, b, h, i) = largest + std::log(denominator);
  });
}

int64_t backward_floats(const AttentionShape& shape) {
  return (2 * shape.K + 1) * shape.D;  // dk, dv, and a row of dq
}

int64_t plan_backward_bytes(const AttentionShape& shape, int threads) {
  return threads * backward_floats(shape) * bytes_of(DType::kF32);
}

// What one query adds to the gradients of the keys it sees, and its own.
template <typename Element>
void backward_of_query(const AttentionBackwardTask& task, int64_t b, int64_t h, int64_t i,
                       float* dk_KD, float* dv_KD, float* dq) {
  const int64_t D = task.shape.D;
  const int64_t g = h / task.shape.heads_per_group();
  const Element* const q = row<Element>(task.q_BQHD, b, i, h);
  const Element* const dout = row<Element>(task.do_BQHD, b, i, h);
  const float delta = dot(dout, row<Element>(task.o_BQHD, b, i, h), D);
  const float lse = lse_at(task.lse_BHQ, b, h, i);
  const KeyRange keys = visible_keys(task, b, i);
  const QueryDropout dropout(task, b, h, i);
  std::fill_n(dq, D, 0.0f);
  for (int64_t j = keys.first; j < keys.end; ++j) {
    const Element* const k = row<Element>(task.k_BKGD, b, j, g);
    const float p = std::exp(task.options.scale * dot(q, k, D) - lse);
    const float factor = dropout.factor(j);
    const float dp = factor * dot(dout, row<Element>(task.v_BKGD, b, j, g), D);
    const float ds = p * (dp - delta);
    add_scaled(dq, ds, k, D);
    add_scaled(dk_KD + j * D, ds, q, D);
    add_scaled(dv_KD + j * D, factor * p, dout, D);
  }
  store(row<Element>(task.dq_BQHD, b, i, h), dq, task.options.scale, D);
}

template <typename Element>
void backward(Context& context, const AttentionBackwardTask& task, std::byte* workspace) {
  const int64_t K = task.shape.K;
  const int64_t G = task.shape.G;
  const int64_t D = task.shape.D;
  const int64_t per_group = task.shape.heads_per_group();
  // One tile is all that adds to the same rows of dk and dv: their sums have one order.
  context.threads.run(task.shape.B * G, [&](int64_t tile, int thread) {
    const int64_t b = tile / G;
    const int64_t g = tile % G;
    float* const dk_KD = reinterpret_cast<float*>(workspace) + thread * backward_floats(task.shape);
    float* const dv_KD = dk_KD + K * D;
    float* const dq = dv_KD + K * D;
    std::fill_n(dk_KD, 2 * K * D, 0.0f);
    for (int64_t h = g * per_group; h < (g + 1) * per_group; ++h) {
      for (int64_t i = 0; i < task.shape.Q; ++i) {
        backward_of_query<Element>(task, b, h, i, dk_KD, dv_KD, dq);
      }
    }
    for (int64_t j = 0; j < K; ++j) {
      store(row<Element>(task.dk_BKGD, b, j, g), dk_KD + j * D, task.options.scale, D);
      store(row<Element>(task.dv_BKGD, b, j, g), dv_KD + j * D, 1.0f, D);
    }
  });
}

template <typename Element>
constexpr AttentionBackend kPlain{.target = Target::kCpu,
                                  .dtype = kDTypeOf<Element>,
                                  .plan_forward_bytes = plan_forward_bytes,
                                  .plan_backward_bytes = plan_backward_bytes,
                                  .forward = forward<Element>,
                                  .backward = backward<Element>};

}  // namespace

const AttentionBackend kAttentionPlainF32 = kPlain<float>;
const AttentionBackend kAttentionPlainBf16 = kPlain<Bf16>;
const AttentionBackend kAttentionPlainF16 = kPlain<F16>;

}  // namespace cadre::kernels::cpu
