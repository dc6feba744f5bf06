#include "plan/times.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/tuning.hpp"
#include "plan/registry.hpp"
#include "plan/rule.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

// Files and links. Source: whole processes of 20 shapes (the suites S, P and course) on a machine with an H200 and 16
// cores, each on both backends; files in the page cache of ext4.
constexpr double kReadBytesPerS = 22e9;  // from the page cache, several threads
constexpr double kReadBytesPerCoreS = 3.2e9;
constexpr double kMappedBytesPerS = 10e9;      // a new file by mappings, 16 writers, which share cores with the product
constexpr double kWriteBytesPerS = 3e9;        // by pwrite
constexpr unsigned kMinMappedCores = 4;        // as io/files/file_sink.hpp
constexpr double kCoreWriteBytesPerS = 2.8e9;  // pages of a new file cleared and filled
constexpr double kLinkBytesPerS = 5e10;        // between pinned host memory and a device, one way
constexpr double kSharingS = 1e-3;             // a device in addition to the first: S1 to /dev/null took 7.6 ms, not 10

// Sorting into a scratch file, one thread: keys and parts; the file written and read. Of side 1, a record fits a key.
constexpr double kSortNsPerBlock = 200;
constexpr double kSortNsPerElement = 40;
constexpr double kSortBytesPerS = 0.5e9;
constexpr double kRangeThreadS = 30e-6;  // a range out of core, of each thread: lists allocated, woken for each stage

// CUDA. Source: an H200 (kernels/README.md has the runs).
constexpr double kLaunchesMs = 0.3;          // launches and waits that every product has
constexpr double kBuildBytesPerMs = 8e8;     // raw records: parse, gather
constexpr double kBuildBlocksPerMs = 1.3e7;  // sort, count
constexpr double kResultBytesPerMs = 2e9;    // records written and packed
constexpr double kWorkPerMs = 8e11;          // as rule.cpp counts it
constexpr double kListedSlowness = 3;        // of pairs where C blocks are listed or found, of sides above 2
constexpr double kListedSmallSlowness = 20;  // of such pairs of sides 1 and 2

// The CPU, one thread. Source: whole processes on 16 cores of a Xeon, data/measurements/processes.json; four fifths of
// its cases set these, and the others agree.
constexpr double kCpuStartS = 8e-3;            // a process with its threads whose product has one block
constexpr double kBuildNsPerBlock = 13;        // keys made and sorted
constexpr double kBuildBytesPerS = 2.4e9;      // blocks packed
constexpr double kLookupNs = 21;               // a block of A: the row of B lies elsewhere
constexpr double kPairNs = 5.4;                // a pair found and ordered; portable code four times as long
constexpr double kFarPairNs = 10;              // the same if the sums of a row are in no cache near by
constexpr double kFarSumBytes = 4e6;           // of a full row of C
constexpr double kTileNs[] = {1.9, 5.7, 8.8};  // a pair of side 1 to 3, added to its sums
constexpr double kBlockNs = 2.4;               // a C block found and written, and for each byte of its record:
constexpr double kOutputByteNs = 0.03;
constexpr double kReferenceTermsPerNs = 0.3;
/// Multiply-adds a ns, elements of up to 15 bits: AVX-512, AVX2, portable code.
double terms_per_ns(Isa isa) {
  return isa == Isa::avx512_vnni ? 42 : isa == Isa::portable ? 1.3 : 21;
}

/// How many times as fast as one thread this many are.
/// Source: S2 to /dev/null with 2, 4, 8 and 16 threads: 1.7, 3.2, 6.3 and 10.
double parallel_speed(unsigned num_threads, const Limits& limits) {
  constexpr double kExponent = 0.85;
  return std::pow(std::max(1.0, static_cast<double>(std::min(num_threads, limits.num_cores))), kExponent);
}

double output_bytes(const Counts& s) {
  return s.num_c_blocks * static_cast<double>(output_record_bytes(s.m()));
}

/// Bytes of output a second that get into new files.
double output_rate(const Limits& limits) {
  return limits.num_cores < kMinMappedCores ? kWriteBytesPerS : kMappedBytesPerS;
}

/// Stages that overlap: the slowest one, and what of the others cannot be hidden.
double overlapped(double one, double other) {
  constexpr double kExposed = 0.1;
  return std::max(one, other) + kExposed * std::min(one, other);
}

/// Milliseconds of a CUDA kernel from parsing to packed records. 0 for the baselines, which are not predicted.
double device_ms(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  if (kernel.b_by_columns) return 0;
  const Gpu& device = limits.gpus.front();
  const double build = input_bytes(s.a) / kBuildBytesPerMs + input_bytes(s.b) / kBuildBytesPerMs +
                       static_cast<double>(s.num_blocks()) / kBuildBlocksPerMs;
  const bool lists = kernel.listing == Listing::wherever_it_fits || (kernel.listing != Listing::never && is_listed(s));
  const double slowness = !lists || kernel.is_dense() ? 1 : s.m() <= 2 ? kListedSmallSlowness : kListedSlowness;
  const double of_all = kernel_work(kernel, s) / kWorkPerMs * slowness / device.arithmetic +
                        output_bytes(s) / kResultBytesPerMs / device.memory;
  return kLaunchesMs + build / device.memory + of_all / limits.num_gpus();
}

/// Seconds until the CPU has built both operands from their records.
double build_seconds(const Choice& e, const Counts& s, const Limits& limits) {
  constexpr double kPieceBlocks = 1 << 14;  // that one thread builds
  const double pieces = std::clamp(static_cast<double>(s.num_blocks()) / kPieceBlocks, 1.0, double(e.num_threads));
  const double packing = s.m() == 1 ? 0 : (input_bytes(s.a) + input_bytes(s.b)) / kBuildBytesPerS;
  return (static_cast<double>(s.num_blocks()) * kBuildNsPerBlock / 1e9 + packing) /
         parallel_speed(static_cast<unsigned>(pieces), limits);
}

/// Seconds by which the output makes a product on the CPU longer.
double write_seconds(const Choice& e, const Counts& s, const Limits& limits, double kernel_s) {
  if (limits.discards_result) return 0;
  const double out = output_bytes(s);
  // The threads that multiply and those that write share the cores.
  const double hidden_s = limits.num_cores < kMinMappedCores ? kernel_s : 0;
  return std::max(out / output_rate(limits) - hidden_s,
                  out / kCoreWriteBytesPerS / parallel_speed(e.num_threads, limits));
}

/// Milliseconds of the stage multiply of row-merge.
double row_merge_ms(const Choice& e, const Counts& s, const Limits& limits) {
  const double m = s.m();
  const double c_blocks = s.num_c_blocks;
  const double portable = limits.isa == Isa::portable ? 4 : 1;
  double ns = kLookupNs * s.a.num_blocks + c_blocks * kBlockNs + output_bytes(s) * kOutputByteNs;
  if (s.m() <= 3) {
    ns += s.num_pairs * kTileNs[s.m() - 1] * portable;
  } else {
    const bool is_far =
        s.nb() * m * m * sizeof(std::uint32_t) > kFarSumBytes &&
        s.num_pairs > kernels::kShortRowPairs * static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
    ns += s.num_pairs *
          ((is_far ? kFarPairNs : kPairNs) * portable + m * m * std::max(4.0, m) / terms_per_ns(limits.isa));
  }
  return ns / 1e6 / parallel_speed(e.num_threads, limits);
}

/// Milliseconds of the kernel.
double kernel_ms(const Choice& e, const Counts& s, const Limits& limits) {
  if (e.backend == Backend::cuda) return device_ms(row_of(e.kernel), s, limits);
  if (e.kernel == "row-merge") return row_merge_ms(e, s, limits);
  return s.num_pairs * std::pow(s.m(), 3) / kReferenceTermsPerNs / 1e6;
}

}  // namespace

double input_bytes(const MatrixHeader& header) {
  return static_cast<double>(header.num_blocks) * static_cast<double>(input_record_bytes(header.m));
}

double read_seconds(double bytes, const Limits& limits) {
  return bytes / std::min(kReadBytesPerS, parallel_speed(limits.num_threads, limits) * kReadBytesPerCoreS);
}

double sort_seconds(const Counts& s, const Limits& limits) {
  const bool is_short = s.m() == 1;  // a record fits a key, unless n is very large
  const double bytes = is_short ? 0 : input_bytes(s.a) + input_bytes(s.b);
  const double block_ns = is_short ? kSortNsPerElement : kSortNsPerBlock;
  return (static_cast<double>(s.num_blocks()) * block_ns / 1e9 + bytes / kSortBytesPerS) /
         parallel_speed(limits.num_threads, limits);
}

double start_seconds(const Choice& e, const Limits& limits) {
  double start_s = 0;
  for (const Gpu& gpu : limits.gpus) start_s += e.backend == Backend::cuda ? gpu.start_s : 0;
  return start_s;
}

double product_seconds(const Choice& e, const Counts& s, const Limits& limits) {
  const double in = input_bytes(s.a) + input_bytes(s.b);
  const double read_s = read_seconds(in, limits);
  const double kernel_s = kernel_ms(e, s, limits) / 1e3;
  if (e.backend != Backend::cuda) {
    return kCpuStartS + read_s + build_seconds(e, s, limits) + kernel_s + write_seconds(e, s, limits, kernel_s);
  }
  const double out = output_bytes(s);
  const std::uint32_t num_devices = limits.num_gpus();
  const double file_s = limits.discards_result ? 0 : out / output_rate(limits);
  const double writing = std::max(file_s, out / kLinkBytesPerS / num_devices);
  return overlapped(read_s, in / kLinkBytesPerS) + overlapped(kernel_s, writing) + (num_devices - 1) * kSharingS;
}

double range_seconds(const Choice& e, const Counts& s, const Limits& limits) {
  if (e.backend == Backend::cuda) return product_seconds(e, s, limits);
  return product_seconds(e, s, limits) - kCpuStartS + e.num_threads * kRangeThreadS;
}

}  // namespace spmm::plan
