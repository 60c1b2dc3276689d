// ParallelSpec: how many ways a run is split, as plain data. Names are those of
// docs/configuration.md.

#pragma once

#include <cstdint>

namespace cadre {

struct ParallelSpec {
  int64_t data_parallel_size = 0;  // 0: whatever number of processes the other sizes leave
  int64_t zero_stage = 0;  // 1: optimizer state is sharded; 2: gradients too; 3: parameters too
  int64_t tensor_parallel_size = 1;
  bool sequence_parallel = false;  // norms and residuals are split along the sequence, too
  int64_t pipeline_parallel_size = 1;
  int64_t context_parallel_size = 1;
  int64_t expert_parallel_size = 1;

  bool operator==(const ParallelSpec&) const = default;
};

}  // namespace cadre
