#include "train/limits.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"
#include "spec/run.h"

namespace cadre::train {
namespace {

constexpr double kBytesMax = 1e17;
constexpr double kOperationsMax = 1e18;

// What the system could give without swapping; 0 if it does not tell. (proc(5), meminfo)
int64_t available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kilobytes = 0;
  while (meminfo >> key >> kilobytes) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") {
      return kilobytes * 1024;
    }
  }
  return 0;
}

}  // namespace

Status check_extent(const EngineSpec& spec) {
  const ModelSpec& model = spec.model;
  const auto vocabulary = static_cast<double>(model.vocab_size);
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto layers = static_cast<double>(model.num_hidden_layers);
  const auto heads =
      static_cast<double>(model.num_attention_heads) * static_cast<double>(model.head_dim);
  const double widest = std::max({hidden, static_cast<double>(model.intermediate_size), heads});
  const auto length = static_cast<double>(spec.sequence_length);
  const double tokens = static_cast<double>(spec.training.micro_batch_size) * length;
  const double parameters = (2.0 * vocabulary + static_cast<double>(model.max_position_embeddings) +
                             layers * 7.0 * widest) *
                            hidden;
  constexpr double kBytesOfParameter = 24.0;
  constexpr double kBytesOfActivation = 80.0;  // of a block, for each of its widest numbers
  const double bytes = kBytesOfParameter * parameters +
                       tokens * (kBytesOfActivation * layers * widest + 8.0 * vocabulary);
  const double operations =
      std::max({4.0 * tokens * widest * std::max(widest, vocabulary), 8.0 * tokens * length * heads,
                8.0 * widest * widest * hidden});
  // Written so that NaN is refused too.
  if (model.num_hidden_layers <= kLayersMax && bytes <= kBytesMax && operations <= kOperationsMax) {
    return {};
  }
  return input_error("sizes beyond any machine: num_hidden_layers ", model.num_hidden_layers,
                     ", hidden_size ", model.hidden_size, ", intermediate_size ",
                     model.intermediate_size, ", num_attention_heads ", model.num_attention_heads,
                     " of ", model.head_dim, ", vocab_size ", model.vocab_size,
                     " and micro-batches of ", spec.training.micro_batch_size, " sequences of ",
                     spec.sequence_length, " tokens are about ", bytes, " bytes and ", operations,
                     " operations of one kernel; allowed: at most ", kLayersMax, " layers, ",
                     kBytesMax, " bytes and ", kOperationsMax, " operations");
}

Status check_memory(const Ledger& ledger) {
  const int64_t available = available_memory_bytes();
  if (available == 0 || ledger.total() <= available) {
    return {};
  }
  return input_error("the run needs ", readable_bytes(ledger.total()),
                     " of memory, the machine has ", readable_bytes(available),
                     " available; `cadre plan` shows what takes it, a smaller micro_batch_size "
                     "or gradient_checkpointing: true needs less");
}

}  // namespace cadre::train
