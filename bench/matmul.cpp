// The matrix products of training steps, timed: GFLOP/s, and the share of the fp32 FMA peak
// measured around each of them (bf16 has twice that where the machine multiplies bf16). oneDNN's in
// the same minute stand beside it if the build found it.
//
//   bench_matmul [--threads 2] [--shapes L|S|M|G|all] [--seconds 0.2] [--filter TEXT] [--clock
//   wall]
//
// --clock cpu divides by the processor time of all threads instead: on a machine with other work.

#include "kernels/matmul.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/peak.h"

#if defined(CADRE_BENCH_DNNL)
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace cadre {
namespace {

struct Arguments {
  int threads = 2;
  std::string shapes = "all";
  std::string filter;
  double seconds = 0.2;  // for each product of each library
  bool cpu_clock = false;
};

// A layer of width K -> N over M tokens.
struct LayerShape {
  const char* model;
  int64_t M, N, K;
};

constexpr LayerShape kLayers[] = {
    {"L", 2048, 2304, 768}, {"L", 2048, 768, 768},  {"L", 2048, 4096, 768}, {"L", 2048, 768, 2048},
    {"L", 2048, 3072, 768}, {"L", 2048, 768, 3072}, {"L", 512, 32000, 768}, {"L", 512, 50304, 768},
    {"S", 4096, 384, 128},  {"S", 4096, 128, 128},  {"S", 4096, 704, 128},  {"S", 4096, 128, 352},
    {"S", 4096, 256, 128},  {"M", 2048, 864, 288},  {"M", 2048, 288, 288},  {"M", 2048, 1536, 288},
    {"M", 2048, 288, 768},  {"M", 512, 32000, 288}, {"G", 256, 2304, 768},  {"G", 256, 768, 768},
    {"G", 256, 3072, 768},  {"G", 256, 768, 3072},  {"G", 256, 50304, 768}};

enum class Pass { kForward, kBackwardInput, kBackwardWeight };

struct Product {
  std::string name;
  Tensor c_MN;
  ConstTensor a_MK;
  ConstTensor b_KN;
  bool adds = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double flops_of(const Product& product) {
  return 2.0 * static_cast<double>(product.c_MN.shape.elements() * product.a_MK.shape[1]);
}

void fill(const Tensor& t) {
  uint32_t state = 1;
  for (int64_t i = 0; i < t.shape.elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    if (t.dtype == DType::kF32) {
      t.begin<float>()[i] = value;
    } else {
      t.begin<Bf16>()[i] = from_float<Bf16>(value);
    }
  }
}

std::string name_of_product(const LayerShape& layer, Pass pass, DType dtype) {
  const char* const passes[] = {"y", "dx", "dw"};
  return std::string(layer.model) + " M" + std::to_string(layer.M) + " N" +
         std::to_string(layer.N) + " K" + std::to_string(layer.K) + " " +
         std::string(name_of(dtype)) + " " + passes[static_cast<int>(pass)];
}

// y = x w^T, dx = dy w, dw += dy^T x
Product product_of(const LayerShape& layer, Pass pass, DType dtype, Arena& arena,
                   std::vector<OwnedTensor>& owners) {
  const auto make = [&](int64_t rows, int64_t columns, DType of) {
    owners.push_back(allocate(arena, of, {rows, columns}));
    fill(owners.back());
    return owners.back().view();
  };
  const Tensor x = make(layer.M, layer.K, dtype);
  const Tensor w = make(layer.N, layer.K, dtype);
  const Tensor y = make(layer.M, layer.N, dtype);
  const std::string name = name_of_product(layer, pass, dtype);
  switch (pass) {
    case Pass::kForward:
      return {name, y, x, w.transposed(), false};
    case Pass::kBackwardInput:
      return {name, x, y, w, false};
    default:
      return {name, make(layer.N, layer.K, DType::kF32), y.transposed(), x, true};
  }
}

double read_clock(const Arguments& arguments) {
  if (!arguments.cpu_clock) {
    return now();
  }
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec)) /
         arguments.threads;
}

// The best time of one call within the seconds there are; the first call is not counted.
double best_seconds(const Arguments& arguments, const std::function<void()>& call) {
  call();
  double best = 1e30;
  const double end = now() + arguments.seconds;
  for (double start = read_clock(arguments); now() < end;) {
    call();
    const double stop = read_clock(arguments);
    best = std::min(best, stop - start);
    start = stop;
  }
  return best;
}

#if defined(CADRE_BENCH_DNNL)
class OneDnn {
 public:
  double seconds(const Product& product, const Arguments& arguments) {
    using dnnl::memory;
    const auto describe = [](ConstTensor t) {
      return memory::desc({t.shape[0], t.shape[1]},
                          t.dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16,
                          {t.strides[0], t.strides[1]});
    };
    dnnl::primitive_attr attributes;
    if (product.adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const auto wrap = [&](ConstTensor t) {
      return memory(describe(t), engine_, const_cast<std::byte*>(t.data));
    };
    const dnnl::matmul::primitive_desc description(
        dnnl::matmul::desc(describe(product.a_MK), describe(product.b_KN), describe(product.c_MN)),
        attributes, engine_);
    dnnl::matmul matmul(description);
    const memory a = wrap(product.a_MK);
    const memory b = wrap(product.b_KN);
    const memory c = wrap(product.c_MN);
    return best_seconds(arguments, [&] {
      matmul.execute(stream_, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
      stream_.wait();
    });
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};
#endif

void measure(Context& context, const Product& product, const Arguments& arguments) {
  double peak = kernels::measure_peak_flops(context);
  const double seconds = best_seconds(arguments, [&] {
    context.trace.discard();
    if (product.adds) {
      kernels::matmul_add(context, product.c_MN, product.a_MK, product.b_KN);
    } else {
      kernels::matmul(context, product.c_MN, product.a_MK, product.b_KN, {});
    }
  });
  peak = std::max(peak, kernels::measure_peak_flops(context));
  const double flops = flops_of(product) / seconds;
  const double units =
      product.a_MK.dtype == DType::kBf16 && context.device.target == Target::kCpuAvx512Bf16 ? 2.0
                                                                                            : 1.0;
  std::printf("%-28s %8.1f GFLOP/s  %5.1f %% of %6.1f", product.name.c_str(), flops * 1e-9,
              100.0 * flops / (peak * units), peak * units * 1e-9);
#if defined(CADRE_BENCH_DNNL)
  static OneDnn one_dnn;
  const double theirs = flops_of(product) / one_dnn.seconds(product, arguments);
  std::printf("   oneDNN %8.1f   ratio %5.2f", theirs * 1e-9, flops / theirs);
#endif
  std::printf("\n");
  std::fflush(stdout);
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string key = values[i];
    const char* const value = values[i + 1];
    if (key == "--threads") {
      arguments.threads = std::atoi(value);
    } else if (key == "--shapes") {
      arguments.shapes = value;
    } else if (key == "--seconds") {
      arguments.seconds = std::atof(value);
    } else if (key == "--clock") {
      arguments.cpu_clock = std::strcmp(value, "cpu") == 0;
    } else if (key == "--filter") {
      arguments.filter = value;
    }
  }
#if defined(CADRE_BENCH_DNNL)
  omp_set_num_threads(arguments.threads);
#endif
  return arguments;
}

void run(const Arguments& arguments) {
  HeapMemory memory;
  Trace trace;
  Arena tensors(memory, trace, {MemoryCategory::kActivations, int64_t{640} << 20});
  Arena workspace(memory, trace, {MemoryCategory::kWorkspace, int64_t{16} << 20});
  ThreadPool threads(arguments.threads);
  Context context{.device = {.kind = DeviceKind::kCpu, .target = detect_cpu_target()},
                  .workspace = workspace,
                  .threads = threads,
                  .trace = trace};
  for (const LayerShape& layer : kLayers) {
    if (arguments.shapes != "all" && arguments.shapes != layer.model) {
      continue;
    }
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
        if (name_of_product(layer, pass, dtype).find(arguments.filter) != std::string::npos) {
          std::vector<OwnedTensor> owners;
          measure(context, product_of(layer, pass, dtype, tensors, owners), arguments);
        }
      }
    }
  }
  std::printf("workspace: at most %lld bytes\n", static_cast<long long>(workspace.peak_bytes()));
}

}  // namespace
}  // namespace cadre

int main(int count, char** values) {
  cadre::run(cadre::parse(count, values));
  return 0;
}
