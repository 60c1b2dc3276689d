// Which rank this process is, as whatever started it says in the environment.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/request.h"

namespace cadre::comm {

// The value of a variable, or nothing. std::getenv, but for tests.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment process_environment();

struct RankEnvironment {
  Position position;
  std::string host;    // of rank 0
  int port = 0;        // where rank 0 listens
  std::string source;  // "torchrun (RANK, WORLD_SIZE)", for messages
};

inline constexpr int kDefaultPort = 29500;  // torchrun's

// Nothing if no variable tells of ranks: the process is alone, or flags tell. In this order:
//   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT       torchrun, Kubeflow, `--nproc`
//   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE       mpirun of Open MPI
//   PMI_RANK, PMI_SIZE                               mpiexec of MPICH, Intel MPI, srun --mpi=pmi2
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS               srun; not the batch script, which is one
//   process JOB_COMPLETION_INDEX, WORLD_SIZE                 an indexed Job of Kubernetes
//   VC_TASK_INDEX, VC_*_HOSTS                        Volcano
// MASTER_ADDR and MASTER_PORT, where they are set, always say where rank 0 is. Otherwise it is on
// this host if all ranks are, on the first host of Slurm's node list or Volcano's hosts, or on pod
// 0 of the Job.
Result<std::optional<RankEnvironment>> read_rank_environment(const Environment& environment);

// "node[03-05,9],gpu1" begins with "node03".
std::string first_host(std::string_view node_list);

}  // namespace cadre::comm
