#include "telemetry/resident.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace cadre {

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  if (!(statm >> size >> resident >> shared)) {
    return 0;
  }
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int64_t page_faults() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_minflt} : 0;
}

}  // namespace cadre
