// bench_pointwise [threads] [seconds per figure] [filter]: speed of the kernels that memory bounds,
// on the sizes of shape L (768 wide, 2048 in the MLP, 32000 words), in the bytes that they book.
// First what memory gives: a triad, a = b + s c, with ordinary stores (which read before they
// write, uncounted) and with ones that pass the caches by.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/timing.h"
#include "device/context.h"
#include "kernels/activation.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/optimizer.h"
#include "kernels/rms_norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cadre::bench {
namespace {

using namespace kernels;

constexpr int64_t kWidth = 768;
constexpr int64_t kInner = 2048;
constexpr int64_t kWords = 32000;

struct Options {
  int threads = 2;
  double seconds = 0.3;
  std::string filter;
};

struct Rank {
  explicit Rank(int count) : threads(count) {}

  // Normal numbers, a few thousand of them over and over.
  Tensor tensor(const Shape& shape, DType dtype) {
    owned.push_back(allocate(activations, dtype, shape));
    const Tensor view = owned.back();
    std::vector<float> values;
    for (int64_t i = 0; i < 4099; ++i) {
      values.push_back(normal_at({.seed = owned.size(), .stream = 0}, i));
    }
    for (int64_t i = 0; i < shape.elements(); ++i) {
      const float value = values[static_cast<size_t>(i) % values.size()];
      if (dtype == DType::kF32) {
        view.begin<float>()[i] = value;
      } else if (dtype == DType::kBf16) {
        view.begin<Bf16>()[i] = from_float<Bf16>(value);
      } else {
        view.begin<int32_t>()[i] = static_cast<int32_t>(i * 7919 % kWords);
      }
    }
    return view;
  }

  HeapMemory heap;
  Trace trace;
  Arena activations{heap, trace, {MemoryCategory::kActivations, int64_t{1100} << 20}};
  Arena workspace{heap, trace, {MemoryCategory::kWorkspace, int64_t{16} << 20}};
  std::vector<OwnedTensor> owned;
  ThreadPool threads;
  Context context{.device = {DeviceKind::kCpu, detect_cpu_target()},
                  .workspace = workspace,
                  .threads = threads,
                  .trace = trace};
};

// Times an op and prints bytes booked per second.
class Table {
 public:
  Table(Rank& rank, const Options& options) : rank_(rank), options_(options) {}

  void row(const std::string& name, const std::function<void()>& op) {
    if (name.find(options_.filter) == std::string::npos) {
      return;
    }
    const Seconds best = time_best(options_.seconds, [&] {
      rank_.trace.discard();
      op();
    });
    double bytes = 0.0;
    for (const BookedOp& booked : rank_.trace.current().ops) {
      bytes += static_cast<double>(booked.bytes_read + booked.bytes_written);
    }
    print(name, bytes, best);
  }

  void print(const std::string& name, double bytes, const Seconds& best) const {
    std::printf("%-42s %9.3f ms wall %9.3f ms processor %7.1f GB/s\n", name.c_str(),
                best.wall * 1e3, best.processor * 1e3, bytes / best.wall * 1e-9);
    std::fflush(stdout);
  }

 private:
  Rank& rank_;
  const Options& options_;
};

#if defined(__x86_64__)
__attribute__((target("avx"))) void triad_past_caches(float* a, const float* b, const float* c,
                                                      int64_t count) {
  const __m256 scale = _mm256_set1_ps(3.0f);
  for (int64_t i = 0; i < count; i += 8) {
    _mm256_stream_ps(
        a + i, _mm256_add_ps(_mm256_loadu_ps(b + i), _mm256_mul_ps(scale, _mm256_loadu_ps(c + i))));
  }
  _mm_sfence();
}
#endif

void measure_memory(Rank& rank, const Options& options, const Table& table) {
  constexpr int64_t kCount = int64_t{24} << 20;
  constexpr int64_t kTile = 1 << 16;
  const Tensor a = rank.tensor({kCount}, DType::kF32);
  const Tensor b = rank.tensor({kCount}, DType::kF32);
  const Tensor c = rank.tensor({kCount}, DType::kF32);
  float* const to = a.begin<float>();
  const float* const left = b.begin<float>();
  const float* const right = c.begin<float>();
  const double bytes = 3.0 * 4.0 * static_cast<double>(kCount);
  table.print("triad", bytes, time_best(options.seconds, [&] {
                rank.threads.run(kCount / kTile, [&](int64_t tile, int) {
                  for (int64_t i = tile * kTile; i < (tile + 1) * kTile; ++i) {
                    to[i] = left[i] + 3.0f * right[i];
                  }
                });
              }));
#if defined(__x86_64__)
  table.print("triad past the caches", bytes, time_best(options.seconds, [&] {
                rank.threads.run(kCount / kTile, [&](int64_t tile, int) {
                  const int64_t first = tile * kTile;
                  triad_past_caches(to + first, left + first, right + first, kTile);
                });
              }));
#endif
  rank.owned.clear();
}

void measure_optimizer(Rank& rank, Table& table) {
  constexpr int64_t kCount = kWords * kWidth;
  Context& context = rank.context;
  const Tensor value = rank.tensor({kCount}, DType::kF32);
  const Tensor gradient = rank.tensor({kCount}, DType::kF32);
  const Tensor m = rank.tensor({kCount}, DType::kF32);
  const Tensor v = rank.tensor({kCount}, DType::kF32);
  const Tensor copy = rank.tensor({kCount}, DType::kBf16);
  const Tensor one = rank.tensor({1}, DType::kF32);
  const Tensor scale = rank.tensor({1}, DType::kF32);
  *scale.begin<float>() = 0.5f;
  clear(context, v);
  const AdamWOptions adamw{.learning_rate = 1e-3f, .weight_decay = 0.1f, .step = 10};
  table.row("squared_sum 24.6M", [&] { squared_sum(context, one, gradient); });
  table.row("clear 24.6M", [&] { clear(context, gradient); });
  table.row("adamw_update 24.6M", [&] {
    adamw_update(context, {value, {}, gradient}, m, v, scale, adamw);
  });
  table.row("adamw_update 24.6M with bf16 copy", [&] {
    adamw_update(context, {value, copy, gradient}, m, v, scale, adamw);
  });
  table.row("lion_update 24.6M with bf16 copy", [&] {
    lion_update(context, {value, copy, gradient}, m, scale, {.learning_rate = 1e-3f});
  });
  table.row("sgd_update 24.6M", [&] {
    sgd_update(context, {value, {}, gradient}, {}, scale, {.learning_rate = 1e-3f});
  });
  table.row("convert 24.6M f32 to bf16", [&] { convert(context, copy, value); });
  table.row("muon_momentum 24.6M",
            [&] { muon_momentum(context, v, m, gradient, scale, 0.95f, true); });
  rank.owned.clear();
}

void measure_norms(Rank& rank, Table& table, int64_t T, DType dtype, const std::string& where) {
  Context& context = rank.context;
  const Tensor x = rank.tensor({T, kWidth}, dtype);
  const Tensor branch = rank.tensor({T, kWidth}, dtype);
  const Tensor y = rank.tensor({T, kWidth}, dtype);
  const Tensor sum = rank.tensor({T, kWidth}, dtype);
  const Tensor weight = rank.tensor({kWidth}, DType::kF32);
  const Tensor dweight = rank.tensor({kWidth}, DType::kF32);
  const Tensor rstd = rank.tensor({T}, DType::kF32);
  const Tensor mean = rank.tensor({T}, DType::kF32);
  const Tensor id = rank.tensor({T}, DType::kI32);
  const Tensor table_VD = rank.tensor({kWords, kWidth}, dtype);
  const Tensor dtable = rank.tensor({kWords, kWidth}, DType::kF32);
  table.row("rms_norm_forward" + where, [&] { rms_norm_forward(context, y, rstd, x, weight, {}); });
  table.row("add_rms_norm_forward" + where,
            [&] { add_rms_norm_forward(context, sum, y, rstd, x, branch, weight, {}); });
  table.row("rms_norm_backward" + where,
            [&] { rms_norm_backward(context, sum, dweight, y, x, weight, rstd, branch); });
  table.row("add_layer_norm_forward" + where, [&] {
    add_layer_norm_forward(context, sum, y, mean, rstd, x, branch, weight, weight, {});
  });
  table.row("layer_norm_backward" + where, [&] {
    layer_norm_backward(context, sum, dweight, weight, y, x, weight, mean, rstd, branch);
  });
  table.row("add" + where, [&] { add(context, sum, x, branch); });
  table.row("column_sum_add" + where, [&] { column_sum_add(context, dweight, x); });
  table.row("dropout" + where, [&] {
    dropout(context, y, x, {.probability = 0.1f, .key = {.seed = 1}, .first_row = 0});
  });
  table.row("embedding_forward" + where, [&] { embedding_forward(context, y, table_VD, id, 0); });
  table.row("embedding_backward" + where, [&] { embedding_backward(context, dtable, x, id, 0); });
  rank.owned.clear();
}

void measure_mlp(Rank& rank, Table& table, int64_t T, DType dtype, const std::string& where) {
  Context& context = rank.context;
  const Tensor gate_up = rank.tensor({T, 2 * kInner}, dtype);
  const Tensor dgate_up = rank.tensor({T, 2 * kInner}, dtype);
  const Tensor y = rank.tensor({T, kInner}, dtype);
  const Tensor dy = rank.tensor({T, kInner}, dtype);
  table.row("swiglu_forward" + where, [&] { swiglu_forward(context, y, gate_up); });
  table.row("swiglu_backward" + where, [&] { swiglu_backward(context, dgate_up, dy, gate_up); });
  table.row("gelu_forward" + where, [&] { gelu_forward(context, dgate_up, gate_up); });
  table.row("gelu_backward" + where, [&] { gelu_backward(context, y, dy, y); });
  rank.owned.clear();
}

void measure_loss(Rank& rank, Table& table, DType dtype, const std::string& where) {
  constexpr int64_t kRows = 512;
  Context& context = rank.context;
  const Tensor logits = rank.tensor({kRows, kWords}, DType::kF32);
  const Tensor target = rank.tensor({kRows}, DType::kI32);
  const Tensor max = rank.tensor({kRows}, DType::kF32);
  const Tensor sum = rank.tensor({kRows}, DType::kF32);
  const Tensor logit = rank.tensor({kRows}, DType::kF32);
  const Tensor lse = rank.tensor({kRows}, DType::kF32);
  for (float& value : lse.flat<float>()) {
    value = 11.0f;
  }
  const int64_t stride = kWords * 4 / bytes_of(dtype);
  const Tensor dlogits{logits.data, dtype, {kRows, kWords}, {stride, 1}};
  table.row("cross_entropy_statistics" + where,
            [&] { cross_entropy_statistics(context, max, sum, logit, logits, target, {}); });
  table.row("cross_entropy_backward" + where,
            [&] { cross_entropy_backward(context, dlogits, logits, lse, target, {}); });
  rank.owned.clear();
}

void run(const Options& options) {
  const auto rank = std::make_unique<Rank>(options.threads);
  Table table(*rank, options);
  std::printf("%s, %d threads\n", std::string(name_of(detect_cpu_target())).c_str(),
              options.threads);
  measure_memory(*rank, options, table);
  measure_optimizer(*rank, table);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const int64_t T : {256, 1024, 4096}) {
      const std::string where = " T=" + std::to_string(T) + " " + std::string(name_of(dtype));
      measure_norms(*rank, table, T, dtype, where);
      measure_mlp(*rank, table, T, dtype, where);
    }
    measure_loss(*rank, table, dtype, " T=512 to " + std::string(name_of(dtype)));
  }
}

}  // namespace
}  // namespace cadre::bench

int main(int count, char** arguments) {
  cadre::bench::Options options;
  if (count > 1) {
    options.threads = std::atoi(arguments[1]);
  }
  if (count > 2) {
    options.seconds = std::atof(arguments[2]);
  }
  if (count > 3) {
    options.filter = arguments[3];
  }
  cadre::bench::run(options);
}
