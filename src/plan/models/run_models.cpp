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
// An H200, 16 cores, S2, S3, S4 and S6 as processes with --parts 8, from the first slice to the last one.
constexpr double kPartsBytesPerS = 22e9;
constexpr std::uint32_t kMinWrittenParts = 4;  // as io/files/file_sink.hpp
constexpr double kSharingS =
    1e-3;  // an allowance for each device in addition to the first; S1 to /dev/null took 7.6 ms, not 10
constexpr double kMergeBytesPerS = 1.5e9;  // kept results, one thread: copied in pieces, page faults
// Slabs from a scratch file. Reading and building in memory that the slab before had, of the same with fresh pages:
// n = 32,768, m = 8, two operands of 500,000 blocks, one thread, 83 to 1,621 slabs: 38 to 83 ns a block. The others: 15
// blocks a row, m = 1 to 48, one thread, limits of 1.2 to 0.1 times both operands, 6 to 60,000 slabs.
constexpr double kReusedShare = 0.25;
constexpr double kRangeS = 1e-6;            // a range of records that is read alone
constexpr double kSortedBlockNs = 10;       // a block of a slab: its index is read twice
constexpr double kSortedBytesPerS = 1.5e9;  // from the scratch file, in pieces
// Slabs of the operands as they are: what each slab meets is counted for every number of slabs. As above.
constexpr double kCountNsPerBlock = 120;
// Records of some columns, found among those of a block row's slab.
constexpr double kPassNsPerRecord = 5;
constexpr double kPickNsPerRecord = 100;
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
constexpr double kSlabStartS = 30e-6;          // a product of two slabs: lists allocated
constexpr double kSlabWakeS = 100e-6;          // and, of several threads, those woken for each stage

/// Stages that overlap: the slowest one, and what of it cannot be hidden.
double overlapped(double slowest, double others) {
  constexpr double kExposed = 0.1;
  return slowest + kExposed * others;
}

/// Bytes of output a second that get into new files.
double output_rate(const Limits& limits) {
  if (limits.num_cores < kMinMappedCores) return kWriteBytesPerS;
  return limits.num_parts < kMinWrittenParts ? kMappedBytesPerS : kPartsBytesPerS;
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
  const double out = s.num_c_blocks * static_cast<double>(output_record_bytes(s.m()));
  const double buffers = std::min(out, static_cast<double>(plan.num_buffers * plan.panel_bytes));
  return kCpuStartS + (plan.num_threads - 1) * kThreadStartS +
         buffers / kClearBytesPerS / parallel_speed(plan.num_threads, limits) +
         (input_bytes(s.a) + input_bytes(s.b)) / kLeaveBytesPerS;
}

/// Seconds of a product on the CPU but for its start.
double cpu_seconds(const Plan& plan, const Problem& p, double in, double out) {
  const double kernel_s = plan.predicted_ms / 1e3;
  const double speed = parallel_speed(plan.num_threads, p.limits);
  // The threads that multiply and those that write share the cores.
  const double hidden_s = p.limits.num_cores < kMinMappedCores ? kernel_s : 0;
  const double writing = std::max(out / output_rate(p.limits) - hidden_s, out / kCoreWriteBytesPerS / speed);
  return read_seconds(in, p.limits) + build_seconds(plan, p) + kernel_s + (p.limits.discards_result ? 0 : writing);
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

double pick_seconds(double num_records, double num_picked) {
  return (num_records * kPassNsPerRecord + num_picked * kPickNsPerRecord) / 1e9;
}

double count_seconds(const Problem& p) {
  const auto& [s, limits] = p;
  return static_cast<double>(s.num_blocks()) * kCountNsPerBlock / 1e9 / parallel_speed(limits.num_threads, limits);
}

double sort_seconds(const Problem& p) {
  const auto& [s, limits] = p;
  const ShortKeyBits bits = short_key_bits(s.a);
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

double product_seconds(const Plan& plan, const Problem& p, double kept_bytes) {
  const auto& [s, limits] = p;
  const double in = input_bytes(s.a) + input_bytes(s.b) - kept_bytes;
  const double out = s.num_c_blocks * static_cast<double>(output_record_bytes(s.m()));
  if (plan.backend == Backend::cuda) {
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
  return host_start_seconds(plan, p) + cpu_seconds(plan, p, in, out);
}

double slab_seconds(const Plan& plan, const Problem& p) {
  if (plan.backend == Backend::cuda) return product_seconds(plan, p);
  return product_seconds(plan, p) - host_start_seconds(plan, p) + kSlabStartS + (plan.num_threads > 1 ? kSlabWakeS : 0);
}

double sorted_slab_seconds(const Plan& plan, const Problem& p, double num_ranges) {
  const auto& [s, limits] = p;
  const double in = input_bytes(s.a) + input_bytes(s.b);
  const double handling =
      num_ranges * kRangeS + static_cast<double>(s.num_blocks()) * kSortedBlockNs / 1e9 + in / kSortedBytesPerS;
  return slab_seconds(plan, p) + handling / parallel_speed(plan.num_threads, limits) -
         (1 - kReusedShare) * (read_seconds(in, limits) + build_seconds(plan, p));
}

}  // namespace spmm::plan
