// The least time that a run could have taken, by resource.
#include "tools/batch/schedule/limits.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spmm::batch {
namespace {

// Measured on a machine with 16 cores of an Intel Xeon, ext4, files of 4 GiB in the page cache; the lower figure where
// it wavered.
using Rate = std::pair<unsigned, double>;  // files at once, bytes per second
constexpr std::array<Rate, 5> kWriting = {{{1, 4.5e9}, {2, 9.2e9}, {4, 15e9}, {8, 29e9}, {16, 39e9}}};
constexpr std::array<Rate, 3> kReading = {{{1, 9.5e9}, {4, 37e9}, {16, 108e9}}};

/// Between two measurements in proportion; beyond the last one no more.
template <std::size_t kNum>
double rate_at(const std::array<Rate, kNum>& rates, unsigned num) {
  for (std::size_t r = 1; r < kNum; ++r) {
    const auto [low, low_rate] = rates[r - 1];
    const auto [high, high_rate] = rates[r];
    if (num <= low) return low_rate;
    if (num < high) return low_rate + (high_rate - low_rate) * (num - low) / (high - low);
  }
  return rates.back().second;
}

}  // namespace

double write_bytes_per_s(unsigned num_files) {
  return rate_at(kWriting, num_files);
}

double read_bytes_per_s(unsigned num_files) {
  return rate_at(kReading, num_files);
}

RunLimit limit_of(const JobCounts& counts, const std::vector<PoolWorker>& workers, unsigned num_cores, double wall_s) {
  RunLimit limit;
  if (counts.done == 0 || wall_s <= 0) return limit;
  limit.files_s = static_cast<double>(counts.in_bytes) / read_bytes_per_s(num_cores) +
                  static_cast<double>(counts.out_bytes) / write_bytes_per_s(num_cores);
  limit.resource = "files";
  for (const PoolWorker& worker : workers) {
    if (worker.kernel_s <= limit.kernels_s) continue;
    limit.kernels_s = worker.kernel_s;
    if (worker.kernel_s > limit.files_s) limit.resource = worker.name;
  }
  limit.share = limit.seconds() / wall_s;
  return limit;
}

}  // namespace spmm::batch
