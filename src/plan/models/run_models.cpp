#include "plan/models/run_models.hpp"

#include <algorithm>

#include "plan/memory/host_bytes.hpp"
#include "plan/models/host_models.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

// Source: whole processes of 20 shapes (the suites S, P and course) on a machine with an H200 and 16 cores, each on
// both backends; files in the page cache of ext4. Predicted / measured there: CUDA 0.90 to 1.26; CPU 0.95 to 1.09 where
// it takes more than 60 ms with m from 4 on. CPU stages fitted to 14 cases there with 1 to 16 threads.
constexpr double kReadBytesPerS = 22e9;  // from the page cache, several threads
constexpr double kReadBytesPerCoreS = 3.2e9;
constexpr double kMappedBytesPerS =
    10e9;                                // a new file through mappings, 16 writers, which share cores with the product
constexpr double kWriteBytesPerS = 3e9;  // by pwrite
constexpr unsigned kMinMappedCores = 4;  // as io/files/file_sink.hpp
constexpr double kSharingS =
    1e-3;  // an allowance for each device in addition to the first; S1 to /dev/null took 7.6 ms, not 10
constexpr double kMergeBytesPerS = 1.5e9;  // kept results, one thread: copied in pieces, page faults
// Sorting into a scratch file, of one thread: keys and parts; copies, and the file written and read.
constexpr double kSortNsPerBlock = 200;
constexpr double kSortBytesPerS = 0.5e9;
// The same of side 1, where a record fits a key: 1.6e6 blocks each, stencil-27 and evenly spread, limits of 1 to 0.1.
constexpr double kSortNsPerElement = 40;
// CPU, of one thread. Building: evenly spread blocks of side 1 to 64, 35,000 to 5e6 of them, one thread of a Zen 5.
constexpr double kBuildNsPerBlock = 50;        // keys made and sorted
constexpr double kBuildNsPerElement = 22;      // side 1: keys hold the elements, and nothing is packed
constexpr double kBuildBytesPerS = 4e9;        // blocks packed, sides that are compiled for
constexpr double kBuildLoopBytesPerS = 1.6e9;  // the same, any other side
constexpr double kCoreWriteBytesPerS = 2.8e9;  // pages of a new file cleared and filled
constexpr double kBuiltPieceBytes = 1 << 20;   // records that one thread builds,
constexpr double kBuiltPieceBlocks = 1 << 14;  // and their number, if that is less
constexpr double kCpuStartS = 4e-3;            // a process whose product has one block: 2.5 to 3.4 ms of processor time
constexpr double kThreadStartS = 0.2e-3;       // a thread started, woken for each stage and joined
constexpr double kClearBytesPerS = 2.5e9;      // output buffers, cleared by the system at first use, of one thread
constexpr double kLeaveBytesPerS = 25e9;       // operands given back at the end, by one thread
constexpr double kRangeStartS = 30e-6;         // a range out of core: lists allocated
constexpr double kRangeWakeS = 100e-6;         // and, of several threads, those woken for each stage

/// Stages that overlap: the slowest one, and what of it cannot be hidden.
double overlapped(double slowest, double others) {
  constexpr double kExposed = 0.1;
  return slowest + kExposed * others;
}

double output_bytes(const Statistics& s) {
  return likely_c_blocks(s) * static_cast<double>(output_record_bytes(s.m()));
}

/// Bytes of output a second that get into new files.
double output_rate(const Limits& limits) {
  return limits.num_cores < kMinMappedCores ? kWriteBytesPerS : kMappedBytesPerS;
}

/// Seconds until the CPU has built both operands from their records.
double build_seconds(const Plan& plan, const Problem& p) {
  const auto& [s, limits] = p;
  constexpr std::uint32_t kMaxCompiledSide = 8;
  const double in = input_bytes(s.a) + input_bytes(s.b);
  const double packing = s.m() == 1 ? 0 : in / (s.m() <= kMaxCompiledSide ? kBuildBytesPerS : kBuildLoopBytesPerS);
  const double block_ns = s.m() == 1 ? kBuildNsPerElement : kBuildNsPerBlock;
  const double most_pieces =
      std::max(in / kBuiltPieceBytes, static_cast<double>(s.num_blocks()) / kBuiltPieceBlocks) / 2;
  const double pieces = std::clamp(most_pieces, 1.0, static_cast<double>(plan.num_threads));
  return (static_cast<double>(s.num_blocks()) * block_ns / 1e9 + packing) /
         parallel_speed(static_cast<unsigned>(pieces), limits);
}

/// Seconds that a process spends on its threads and memory.
double host_start_seconds(const Plan& plan, const Problem& p) {
  const auto& [s, limits] = p;
  const double out = output_bytes(s);
  const double buffers = std::min(out, static_cast<double>(plan.num_buffers * plan.panel_bytes));
  return kCpuStartS + (plan.num_threads - 1) * kThreadStartS +
         buffers / kClearBytesPerS / parallel_speed(plan.num_threads, limits) +
         (input_bytes(s.a) + input_bytes(s.b)) / kLeaveBytesPerS;
}

/// Seconds by which the output makes a product on the CPU longer.
double write_seconds(const Plan& plan, const Problem& p, double kernel_s) {
  if (p.limits.discards_result) return 0;
  const double out = output_bytes(p.s);
  // The threads that multiply and those that write share the cores.
  const double hidden_s = p.limits.num_cores < kMinMappedCores ? kernel_s : 0;
  return std::max(out / output_rate(p.limits) - hidden_s,
                  out / kCoreWriteBytesPerS / parallel_speed(plan.num_threads, p.limits));
}

/// Seconds of a product on the CPU but for its start.
double cpu_seconds(const Plan& plan, const Problem& p, double in) {
  const double kernel_s = plan.predicted_ms / 1e3;
  return read_seconds(in, p.limits) + build_seconds(plan, p) + kernel_s + write_seconds(plan, p, kernel_s);
}

}  // namespace

double input_bytes(const MatrixHeader& header) {
  return static_cast<double>(header.num_blocks) * static_cast<double>(input_record_bytes(header.m));
}

double read_seconds(double bytes, const Limits& limits) {
  return bytes / std::min(kReadBytesPerS, parallel_speed(limits.num_threads, limits) * kReadBytesPerCoreS);
}

double merge_seconds(double bytes) {
  return bytes / kMergeBytesPerS;
}

double sort_seconds(const Problem& p) {
  const auto& [s, limits] = p;
  const KeyBits bits = key_bits(s.a);
  const bool is_short = s.m() == 1 && 2 * bits.index + bits.payload < 64;
  const double bytes = is_short ? 0 : input_bytes(s.a) + input_bytes(s.b);
  const double block_ns = is_short ? kSortNsPerElement : kSortNsPerBlock;
  return (static_cast<double>(s.num_blocks()) * block_ns / 1e9 + bytes / kSortBytesPerS) /
         parallel_speed(limits.num_threads, limits);
}

double start_seconds(const Plan& plan, const Limits& limits) {
  if (plan.backend != Backend::cuda || !limits.device) return 0;
  double start_s = limits.device->start_s;
  for (const DeviceLimits& other : limits.more_devices) start_s += other.start_s;
  return start_s;
}

double product_seconds(const Plan& plan, const Problem& p) {
  const auto& [s, limits] = p;
  const double in = input_bytes(s.a) + input_bytes(s.b);
  if (plan.backend == Backend::cuda) {
    const double out = output_bytes(s);
    const std::uint32_t num_devices = limits.num_devices();
    const double kernel_s = plan.predicted_ms / 1e3;
    const double read_s = read_seconds(in, limits);
    const double file_s = limits.discards_result ? 0 : out / output_rate(limits);
    const double link = limits.device ? limits.device->transfer_bytes_per_ms * 1e3 : kReadBytesPerS;
    const double reading = overlapped(std::max(read_s, in / link), std::min(read_s, in / link));
    const double writing = std::max(file_s, out / link / num_devices);
    return reading + overlapped(std::max(kernel_s, writing), std::min(kernel_s, writing)) +
           (num_devices - 1) * kSharingS;
  }
  return host_start_seconds(plan, p) + cpu_seconds(plan, p, in);
}

double range_seconds(const Plan& plan, const Problem& p) {
  if (plan.backend == Backend::cuda) return product_seconds(plan, p);
  return product_seconds(plan, p) - host_start_seconds(plan, p) + kRangeStartS +
         (plan.num_threads > 1 ? kRangeWakeS : 0);
}

}  // namespace spmm::plan
