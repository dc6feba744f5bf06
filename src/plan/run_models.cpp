#include "plan/run_models.hpp"

#include <algorithm>

#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

// Measured on one machine with an H200 (README: S2 as a process, parallel writes of 4.4 GB, start of a context),
// rounded.
constexpr double kContextStartS = 0.3;     // from the first CUDA call to the first copy
constexpr double kReadBytesPerS = 4e9;     // from the page cache, several threads
constexpr double kWriteBytesPerS = 4.5e9;  // a new file, several writers
constexpr double kMergeBytesPerS = 1.5e9;  // kept results, one thread: copied in pieces, page faults
// CPU: keys made and sorted, blocks packed; of one thread, on two cores of a Zen 4.
constexpr double kBuildNsPerBlock = 60;
constexpr double kBuildBytesPerS = 1.5e9;

/// Stages that overlap: the slowest one, and what of it cannot be hidden.
double overlapped(double slowest, double others) {
  constexpr double kExposed = 0.1;
  return slowest + kExposed * others;
}

}  // namespace

double input_bytes(const MatrixHeader& header) {
  return static_cast<double>(header.num_blocks) * static_cast<double>(input_record_bytes(header.m));
}

double read_seconds(double bytes) {
  return bytes / kReadBytesPerS;
}

double merge_seconds(double bytes) {
  return bytes / kMergeBytesPerS;
}

double start_seconds(const Execution& execution, const Limits& limits) {
  return execution.backend == Backend::cuda && limits.device && !limits.device->is_started ? kContextStartS : 0;
}

double product_seconds(const Execution& execution, const Statistics& s, const Limits& limits) {
  const double in = input_bytes(s.a) + input_bytes(s.b);
  const double out = s.num_c_blocks * static_cast<double>(output_record_bytes(s.m()));
  const double kernel_s = execution.predicted_ms / 1e3;
  if (execution.backend == Backend::cuda) {
    const double link = limits.device ? limits.device->transfer_bytes_per_ms * 1e3 : kReadBytesPerS;
    const double reading = overlapped(std::max(read_seconds(in), in / link), std::min(read_seconds(in), in / link));
    const double writing = std::max(out / kWriteBytesPerS, out / link);
    return reading + overlapped(std::max(kernel_s, writing), std::min(kernel_s, writing));
  }
  const double threads = std::min(execution.num_threads, limits.num_cores);
  const double build = (static_cast<double>(s.num_blocks()) * kBuildNsPerBlock / 1e9 + in / kBuildBytesPerS) / threads;
  const double writing = out / kWriteBytesPerS;
  return read_seconds(in) + build + overlapped(std::max(kernel_s, writing), std::min(kernel_s, writing));
}

}  // namespace spmm::plan
