// bench_attention [threads] [seconds per figure] [filter] [dropout]: speed of attention on the
// shapes that decide, in causal flops (two products forward, five backward), as a share of the FMA
// peak.

#include "kernels/attention.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/peak.h"
#include "bench/timing.h"
#include "device/context.h"
#include "kernels/rope.h"

namespace cadre::bench {
namespace {

using kernels::attention_backward;
using kernels::attention_forward;
using kernels::AttentionOptions;
using kernels::rope_apply;
using kernels::Rotation;

struct Case {
  const char* name;
  int64_t B, T, H, D;
};

constexpr Case kCases[] = {{"S", 16, 256, 4, 32},          {"M", 8, 256, 6, 48},
                           {"L batch 1", 1, 1024, 12, 64}, {"L batch 4", 4, 1024, 12, 64},
                           {"G T=64", 4, 64, 12, 64},      {"G T=256", 4, 256, 12, 64},
                           {"T=4096", 1, 4096, 2, 128}};

struct Rank {
  explicit Rank(int count) : threads(count) {}

  // Numbers between -1 and 1.
  Tensor tensor(const Shape& shape, DType dtype) {
    owned.push_back(allocate(activations, dtype, shape));
    const Tensor view = owned.back();
    uint32_t random = static_cast<uint32_t>(owned.size());
    for (int64_t i = 0; i < shape.elements(); ++i) {
      random = random * 1664525u + 1013904223u;
      const float value = static_cast<float>(random >> 8) * 0x1p-23f - 1.0f;
      if (dtype == DType::kF32) {
        view.begin<float>()[i] = value;
      } else {
        view.begin<Bf16>()[i] = from_float<Bf16>(value);
      }
    }
    return view;
  }

  HeapMemory heap;
  Trace trace;
  Arena activations{heap, trace, {MemoryCategory::kActivations, int64_t{192} << 20}};
  Arena workspace{heap, trace, {MemoryCategory::kWorkspace, int64_t{32} << 20}};
  std::vector<OwnedTensor> owned;
  ThreadPool threads;
  Context context{.device = {DeviceKind::kCpu, detect_cpu_target()},
                  .workspace = workspace,
                  .threads = threads,
                  .trace = trace};
};

Tensor heads(const Tensor& rows, const Case& c, int64_t part) {
  const Box box{.first = {0, 0, part * c.H * c.D}, .size = {c.B, c.T, c.H * c.D}};
  return rows.slice(box).split(2, c.H);
}

// The part of "NAME DTYPE PASS" that is asked for.
std::string filter;

float dropout = 0.0f;

bool wanted(const Case& c, DType dtype, const char* pass) {
  const std::string name = std::string(c.name) + " " + std::string(name_of(dtype)) + " " + pass;
  return name.find(filter) != std::string::npos;
}

void print(const Case& c, DType dtype, const char* pass, const Rank& rank, const Seconds& seconds,
           double peak) {
  const double gflop = static_cast<double>(rank.trace.current().ops.back().flops) * 1e-9;
  std::printf("%-10s %-5s %-8s %8.3f ms  %7.1f GFLOP/s by the wall  %5.1f %% of the fp32 peak\n",
              c.name, std::string(name_of(dtype)).c_str(), pass, seconds.wall * 1e3,
              gflop / seconds.wall, 100.0 * gflop / seconds.processor / peak);
}

void run(const Case& c, DType dtype, int threads, double seconds) {
  const auto rank = std::make_unique<Rank>(threads);
  Context& context = rank->context;
  const Tensor rows = rank->tensor({c.B, c.T, 3 * c.H * c.D}, dtype);
  const Tensor drows = rank->tensor({c.B, c.T, 3 * c.H * c.D}, dtype);
  const Tensor o = rank->tensor({c.B, c.T, c.H, c.D}, dtype);
  const Tensor dout = rank->tensor({c.B, c.T, c.H, c.D}, dtype);
  const Tensor lse = rank->tensor({c.B, c.H, c.T}, DType::kF32);
  const AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(c.D)),
                                 .dropout = {.probability = dropout, .heads = c.H}};
  const Tensor q = heads(rows, c, 0);
  const Tensor k = heads(rows, c, 1);
  const Tensor v = heads(rows, c, 2);
  const double peak = measure_peak_gflops();
  const auto forward = [&] {
    rank->trace.discard();
    attention_forward(context, o, lse, q, k, v, {}, options);
  };
  forward();
  if (wanted(c, dtype, "forward")) {
    print(c, dtype, "forward", *rank, time_best(seconds, forward), peak);
  }
  if (!wanted(c, dtype, "backward")) {
    return;
  }
  const Seconds backward = time_best(seconds, [&] {
    rank->trace.discard();
    attention_backward(context, heads(drows, c, 0), heads(drows, c, 1), heads(drows, c, 2), dout, o,
                       lse, q, k, v, {}, options);
  });
  print(c, dtype, "backward", *rank, backward, peak);
}

// Turns q and k inside fused rows. Memory-bound: GB/s of reading and writing them once.
void run_rope(const Case& c, DType dtype, int threads, double seconds) {
  const auto rank = std::make_unique<Rank>(threads);
  const Tensor rows = rank->tensor({c.B * c.T, 3 * c.H * c.D}, dtype);
  const Tensor x = rows.columns(0, 2 * c.H * c.D).split(1, 2 * c.H);
  const Tensor table = rank->tensor({c.T, c.D}, DType::kF32);
  rank->owned.push_back(allocate(rank->activations, DType::kI32, {c.B * c.T}));
  const Tensor positions = rank->owned.back();
  for (int64_t t = 0; t < c.B * c.T; ++t) {
    positions.begin<int32_t>()[t] = static_cast<int32_t>(t % c.T);
  }
  const Seconds best = time_best(seconds, [&] {
    rank->trace.discard();
    rope_apply(rank->context, x, table, positions, Rotation::kForward);
  });
  std::printf("%-10s %-5s %-8s %8.3f ms  %7.1f GB/s by the wall\n", c.name,
              std::string(name_of(dtype)).c_str(), "rope", best.wall * 1e3,
              2e-9 * static_cast<double>(x.bytes()) / best.wall);
}

}  // namespace
}  // namespace cadre::bench

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.3;
  cadre::bench::filter = argc > 3 ? argv[3] : "";
  cadre::bench::dropout = argc > 4 ? std::strtof(argv[4], nullptr) : 0.0f;
  for (const cadre::DType dtype : {cadre::DType::kF32, cadre::DType::kBf16}) {
    for (const cadre::bench::Case& c : cadre::bench::kCases) {
      if (cadre::bench::wanted(c, dtype, "forward") || cadre::bench::wanted(c, dtype, "backward")) {
        cadre::bench::run(c, dtype, threads, seconds);
      }
      if (cadre::bench::wanted(c, dtype, "rope")) {
        cadre::bench::run_rope(c, dtype, threads, seconds);
      }
    }
  }
  return 0;
}
