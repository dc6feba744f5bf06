// The least time that a run could have taken, by resource: files and workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/batch/schedule/pool.hpp"
#include "tools/batch/schedule/table.hpp"

namespace spmm::batch {

/// What binds a run.
struct RunLimit {
  double files_s = 0;      ///< all files of finished jobs at the measured rates, as many at once as there are cores
  double kernels_s = 0;    ///< predicted time of the kernels of the busiest worker
  std::string resource{};  ///< "files", or the name of the busiest worker; "" if nothing was done
  double share = 0;        ///< the larger of both, of the time the run took

  [[nodiscard]] double seconds() const { return files_s > kernels_s ? files_s : kernels_s; }
};

/// Values: num_cores = that this process may use; wall_s = time of the run.
RunLimit limit_of(const JobCounts& counts, const std::vector<PoolWorker>& workers, unsigned num_cores, double wall_s);

/// Bytes per second of so many files at once, in the page cache: new ones written, others read.
double write_bytes_per_s(unsigned num_files);
double read_bytes_per_s(unsigned num_files);

}  // namespace spmm::batch
