// Threads and output buffers of a CPU kernel.
#include <algorithm>
#include <cmath>

#include "base/records/selector.hpp"
#include "plan/decide.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kMinBufferBytes = 256u << 10;  // less only if memory is short
constexpr std::uint64_t kEnoughBytes = 512u << 10;     // rather than smaller buffers, fewer threads
/// Output buffers of row-merge. Larger ones have left the caches when they are used again; with smaller ones threads
/// wait for each other's older units. Multiply with 8, 4, 2 and 1 MB, two threads on a quiet machine: P3 87, 73, 94,
/// 114 ms, P5 221, 219, 243, 254, 27-point stencil, m = 8: 190, 200, 221, 283.
constexpr std::uint64_t kNearBufferBytes = 4u << 20;

/// Whole records, at least one.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record) {
  return std::max<std::uint64_t>(1, bytes / record) * record;
}

/// The largest buffers that are useful. Pages that a small product uses a part of are cleared by the system all the
/// same: 600 products of n = 1,024, m = 8, k = 1,000, four at a time on two cores, 190 to 270 a second with 8 MB, 640
/// to 870 with an eighth of the result.
std::uint64_t useful_buffer_bytes(const Counts& s, std::uint64_t record) {
  constexpr double kBuffersOfResult = 8;
  const double bytes = s.num_c_blocks * static_cast<double>(record) / kBuffersOfResult;
  if (bytes >= static_cast<double>(kNearBufferBytes)) return std::max(record, kNearBufferBytes);
  return std::max({record, kMinBufferBytes, static_cast<std::uint64_t>(bytes)});
}

}  // namespace

Choice cpu_shape(const KernelRow& kernel, const Counts& s, const Limits& limits) {
  Choice e;
  e.backend = Backend::cpu;
  e.kernel = kernel.name;
  e.host_limit_bytes = limits.host_bytes;
  const std::uint64_t record = output_record_bytes(std::max(1u, s.m()));
  const HostBytes need = kernel.host_bytes(s.a, s.b, limits.isa, s.a_span);
  const std::uint64_t of_selector = RecordSelector::memory_bytes(
      limits.selection, s.m(), static_cast<std::uint32_t>(std::min<std::uint64_t>(s.nb(), s.b.num_blocks)));
  const auto total = [&](std::uint64_t threads, std::uint64_t buffers, std::uint64_t bytes) {
    return need.total(static_cast<unsigned>(threads), buffers, bytes) + threads * of_selector;
  };
  const std::uint64_t useful = useful_buffer_bytes(s, record);
  const std::uint64_t enough = whole_records(std::min(useful, kEnoughBytes), record);
  // The largest useful buffers that fit: halved until they do; 0 where none do.
  const auto largest_buffer = [&](unsigned threads, std::uint64_t buffers) -> std::uint64_t {
    for (std::uint64_t bytes = useful;; bytes /= 2) {
      const std::uint64_t whole = whole_records(bytes, record);
      if (total(threads, buffers, whole) <= limits.host_bytes) return whole;
      if (whole == record) return 0;
    }
  };
  const unsigned most_threads =
      std::max(1u, std::min(limits.num_threads, kernel.max_threads == 0 ? limits.num_threads : kernel.max_threads));
  for (std::uint64_t threads = most_threads; threads > 0 && e.panel_bytes < enough; threads = threads * 3 / 4) {
    // With two buffers a thread and two for the sink no thread waits; the last one of fewer than that is kept for the
    // oldest unit, so that one more than there are threads is the least.
    for (const std::uint64_t buffers : {2 * threads + 2, (3 * threads + 3) / 2, threads + 1}) {
      const std::uint64_t bytes = largest_buffer(static_cast<unsigned>(threads), buffers);
      if (bytes <= e.panel_bytes && bytes < enough) continue;
      e.num_threads = static_cast<unsigned>(threads);
      e.num_buffers = buffers;
      e.panel_bytes = bytes;
      if (bytes >= enough) break;
    }
  }
  if (e.panel_bytes == 0) {
    e.refusal = host_memory_refusal(total(1, 2, record));
    return e;
  }
  e.host_need_bytes = total(e.num_threads, e.num_buffers, e.panel_bytes);
  return e;
}

}  // namespace spmm::plan
