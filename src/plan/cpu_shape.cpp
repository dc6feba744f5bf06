#include "plan/cpu_shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/memory/host_bytes.hpp"

namespace spmm::plan {
namespace {

constexpr std::uint64_t kMinBufferBytes = 256u << 10;  // less only if memory is short
constexpr std::uint64_t kEnoughBytes = 512u << 10;     // rather than smaller buffers, fewer threads
/// Output buffers of row-merge. Larger ones have left the caches when they are used again; with smaller ones threads
/// wait for each other's older units. Multiply with 8, 4, 2 and 1 MB, two threads on a quiet machine: P3 87, 73, 94,
/// 114 ms, P5 221, 219, 243, 254, 27-point stencil, m = 8: 190, 200, 221, 283.
constexpr std::uint64_t kNearBufferBytes = 4u << 20;

struct HostShape {
  unsigned num_threads = 1;
  std::uint64_t num_buffers = 0;
  std::uint64_t buffer_bytes = 0;
};

/// Whole records, at least one.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record) {
  return std::max<std::uint64_t>(1, bytes / record) * record;
}

/// The largest buffers that are useful. Pages that a small product uses a part of are cleared by the system all the
/// same: 600 products of n = 1,024, m = 8, k = 1,000, four at a time on two cores, 190 to 270 a second with 8 MB, 640
/// to 870 with an eighth of the result.
std::uint64_t useful_buffer_bytes(const Statistics& s, std::uint64_t record) {
  constexpr double kBuffersOfResult = 8;
  const double bytes = s.num_c_blocks * static_cast<double>(record) / kBuffersOfResult;
  if (bytes >= static_cast<double>(kNearBufferBytes)) return std::max(record, kNearBufferBytes);
  return std::max({record, kMinBufferBytes, static_cast<std::uint64_t>(bytes)});
}

/// The largest useful buffers with which so many threads and buffers fit: halved until they do. 0 bytes where none do.
HostShape largest_that_fits(const HostBytes& need, HostShape shape, std::uint64_t record, std::uint64_t useful_bytes,
                            std::uint64_t limit_bytes) {
  for (std::uint64_t bytes = useful_bytes;; bytes /= 2) {
    shape.buffer_bytes = whole_records(bytes, record);
    if (need.total(shape.num_threads, shape.num_buffers, shape.buffer_bytes) <= limit_bytes) return shape;
    if (shape.buffer_bytes == record) return {};
  }
}

/// With two buffers a thread and two for the sink no thread waits; the last one of fewer than that is kept for the
/// oldest unit, so that one more than there are threads is the least.
std::array<std::uint64_t, 3> numbers_of_buffers(unsigned num_threads) {
  const std::uint64_t threads = num_threads;
  return {2 * threads + 2, (3 * threads + 3) / 2, threads + 1};
}

}  // namespace

Execution cpu_shape(const KernelRow& kernel, const Problem& p) {
  const auto& [s, limits] = p;
  Execution e;
  e.backend = Backend::cpu;
  e.id = kernel.id;
  e.kernel = kernel.name;
  e.host_limit_bytes = limits.host_bytes;
  const std::uint64_t record = output_record_bytes(std::max(1u, s.m()));
  const HostBytes need = kernel.host_bytes(s.a, s.b, limits.isa);
  const std::uint64_t useful_bytes = useful_buffer_bytes(s, record);
  const unsigned most_threads =
      std::max(1u, std::min(limits.num_threads, kernel.max_threads == 0 ? limits.num_threads : kernel.max_threads));
  const std::uint64_t enough = whole_records(std::min(useful_bytes, kEnoughBytes), record);
  HostShape best;
  for (unsigned threads = most_threads; threads > 0 && best.buffer_bytes < enough; threads = threads * 3 / 4) {
    for (const std::uint64_t buffers : numbers_of_buffers(threads)) {
      const HostShape shape = largest_that_fits(need, {.num_threads = threads, .num_buffers = buffers}, record,
                                                useful_bytes, limits.host_bytes);
      if (shape.buffer_bytes > best.buffer_bytes || shape.buffer_bytes >= enough) best = shape;
      if (best.buffer_bytes >= enough) break;
    }
  }
  if (best.buffer_bytes == 0) {
    e.refusal = host_memory_refusal(need.total(1, 2, record));
    return e;
  }
  e.num_threads = best.num_threads;
  e.num_buffers = best.num_buffers;
  e.panel_bytes = best.buffer_bytes;
  e.host_need_bytes = need.total(best.num_threads, best.num_buffers, best.buffer_bytes);
  e.expected_panels = static_cast<std::uint64_t>(
      std::ceil(s.num_c_blocks * static_cast<double>(record) / static_cast<double>(e.panel_bytes)));
  return e;
}

}  // namespace spmm::plan
