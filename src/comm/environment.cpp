#include "comm/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <vector>

namespace cadre::comm {
namespace {

// A number that several runs on one machine are unlikely to share, from the job's.
int port_from(std::string_view text) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char letter : text) {
    hash = (hash ^ static_cast<uint8_t>(letter)) * 16777619;
  }
  return 20000 + static_cast<int>(hash % 12000);  // below what systems give out by themselves
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(std::string_view name) const { return environment_(name); }

  bool has(std::string_view name) const { return environment_(name).has_value(); }

  // The first of the variables that is set.
  std::string text_of(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      if (std::optional<std::string> value = environment_(name)) {
        return *value;
      }
    }
    return {};
  }

  Result<int> number_of(std::string_view name) const {
    const std::optional<std::string> value = environment_(name);
    if (!value) {
      return input_error("the environment has no ", name,
                         ", which whatever starts ranks in this way sets");
    }
    const std::optional<int> parsed = number(*value);
    if (!parsed || *parsed < 0) {
      return input_error(name, " is \"", *value, "\"; wanted is a number from 0");
    }
    return *parsed;
  }

  struct Names {
    std::string_view rank;
    std::string_view size;
  };
  Result<Position> position(const Names& names) const {
    const Result<int> rank = number_of(names.rank);
    if (!rank) {
      return rank.error();
    }
    const Result<int> size = number_of(names.size);
    if (!size) {
      return size.error();
    }
    if (*rank >= *size) {
      return input_error(names.rank, " is ", *rank, " and ", names.size, " is ", *size,
                         "; ranks count from 0 to one less than their number");
    }
    return Position{.rank = *rank, .size = *size};
  }

  // MASTER_ADDR and MASTER_PORT where they are set, else what is given.
  Result<std::optional<RankEnvironment>> complete(const Names& names, std::string_view source,
                                                  const std::string& host, int port) const {
    const Result<Position> found = position(names);
    if (!found) {
      return found.error();
    }
    RankEnvironment result{.position = *found,
                           .host = text("MASTER_ADDR").value_or(host),
                           .port = port,
                           .source = concat(source, " (", names.rank, ", ", names.size, ")")};
    if (has("MASTER_PORT")) {
      const Result<int> given = number_of("MASTER_PORT");
      if (!given) {
        return given.error();
      }
      if (*given < 1 || *given > 65535) {
        return input_error("MASTER_PORT is ", *given, "; wanted is a port from 1 to 65535");
      }
      result.port = *given;
    }
    if (result.host.empty()) {
      return input_error(result.source, " does not tell where rank 0 is; set MASTER_ADDR");
    }
    return std::optional(std::move(result));
  }

 private:
  const Environment& environment_;
};

using Found = Result<std::optional<RankEnvironment>>;

Found read_mpi(const Reader& reader, const Reader::Names& names, std::string_view local_size,
               std::string_view source) {
  // On one host rank 0 is here; where Slurm gave the hosts, on the first of them.
  const std::string size = reader.text_of({names.size});
  const bool one_host = reader.text_of({local_size}) == size;
  const std::string hosts = reader.text_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const std::string job =
      reader.text_of({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID"});
  return reader.complete(names, source, one_host ? "127.0.0.1" : first_host(hosts), port_from(job));
}

Found read_slurm(const Reader& reader) {
  const std::string hosts = reader.text_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const std::string job = concat(reader.text_of({"SLURM_JOB_ID", "SLURM_JOBID"}), ".",
                                 reader.text_of({"SLURM_STEP_ID", "SLURM_STEPID"}));
  const std::string_view size =
      reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  return reader.complete({.rank = "SLURM_PROCID", .size = size}, "Slurm", first_host(hosts),
                         port_from(job));
}

// The host of a pod of an indexed Job is NAME-INDEX.
Found read_indexed_job(const Reader& reader) {
  std::string host = reader.text_of({"HOSTNAME"});
  const std::string suffix = concat("-", reader.text_of({"JOB_COMPLETION_INDEX"}));
  if (host.ends_with(suffix)) {
    host = host.substr(0, host.size() - suffix.size()) + "-0";
  } else {
    host.clear();
  }
  return reader.complete({.rank = "JOB_COMPLETION_INDEX", .size = "WORLD_SIZE"}, "an indexed Job",
                         host, kDefaultPort);
}

std::vector<std::string> listed_hosts(std::string_view text) {
  std::vector<std::string> hosts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) {
      hosts.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return hosts;
}

// Every pod has the hosts of every task: ranks are counted over the tasks that train, masters
// first.
Found read_volcano(const Reader& reader) {
  std::vector<std::string> hosts;
  for (const std::string_view name : {"VC_MASTER_HOSTS", "VC_LAUNCHER_HOSTS", "VC_WORKER_HOSTS",
                                      "VC_TRAINER_HOSTS", "VC_TASK_HOSTS"}) {
    const std::vector<std::string> of_task = listed_hosts(reader.text_of({name}));
    hosts.insert(hosts.end(), of_task.begin(), of_task.end());
  }
  if (hosts.empty()) {
    return input_error(
        "Volcano set VC_TASK_INDEX, but neither VC_MASTER_HOSTS nor VC_WORKER_HOSTS; the job needs "
        "the plugins env and svc, and tasks of the name master, worker or trainer");
  }
  const std::string own = reader.text_of({"HOSTNAME"});
  const auto at = std::ranges::find_if(hosts, [&](const std::string& host) {
    return host == own || host.substr(0, host.find('.')) == own;
  });
  if (at == hosts.end()) {
    return input_error("HOSTNAME is \"", own,
                       "\", which is not among Volcano's hosts: ", hosts.front(), " and ",
                       hosts.size() - 1, " more");
  }
  const std::string rank = std::to_string(at - hosts.begin());
  const std::string size = std::to_string(hosts.size());
  const Environment with_rank = [&](std::string_view name) -> std::optional<std::string> {
    return name == "VC_RANK" ? rank : name == "VC_SIZE" ? size : reader.text(name);
  };
  return Reader(with_rank).complete({.rank = "VC_RANK", .size = "VC_SIZE"}, "Volcano",
                                    hosts.front(), kDefaultPort);
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* const value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string first_host(std::string_view node_list) {
  const size_t bracket = node_list.find('[');
  const size_t comma = node_list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) {
    return std::string(node_list.substr(0, comma));
  }
  const std::string_view rest = node_list.substr(bracket + 1);
  const size_t close = std::min(rest.find(']'), rest.size());
  const std::string_view numbers = rest.substr(0, close);
  std::string host(node_list.substr(0, bracket));
  host += numbers.substr(0, numbers.find_first_of(",-"));
  // A name may go on behind the brackets, with more of them: "rack[1-2]node[3-4]".
  const std::string_view after = rest.substr(std::min(close + 1, rest.size()));
  return host + (after.empty() || after.front() == ',' ? "" : first_host(after));
}

Result<std::optional<RankEnvironment>> read_rank_environment(const Environment& environment) {
  const Reader reader(environment);
  if (reader.has("RANK") && reader.has("WORLD_SIZE")) {
    return reader.complete({.rank = "RANK", .size = "WORLD_SIZE"}, "torchrun's variables",
                           reader.text_of({"WORLD_SIZE"}) == "1" ? "127.0.0.1" : "", kDefaultPort);
  }
  if (reader.has("OMPI_COMM_WORLD_RANK")) {
    return read_mpi(reader, {.rank = "OMPI_COMM_WORLD_RANK", .size = "OMPI_COMM_WORLD_SIZE"},
                    "OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI");
  }
  if (reader.has("PMI_RANK")) {
    return read_mpi(reader, {.rank = "PMI_RANK", .size = "PMI_SIZE"}, "MPI_LOCALNRANKS", "PMI");
  }
  // A batch script has SLURM_PROCID too, but no step: what it runs itself is one process.
  if (reader.has("SLURM_PROCID") &&
      number(reader.text_of({"SLURM_STEP_ID", "SLURM_STEPID"})).has_value()) {
    return read_slurm(reader);
  }
  if (reader.has("JOB_COMPLETION_INDEX")) {
    return read_indexed_job(reader);
  }
  if (reader.has("VC_TASK_INDEX") || reader.has("VK_TASK_INDEX")) {
    return read_volcano(reader);
  }
  return std::optional<RankEnvironment>();
}

}  // namespace cadre::comm
