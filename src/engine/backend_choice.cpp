// The choice by headers, and by sampled indices if the CPU seems to be faster.
#include "engine/backend_choice.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "cpu/backend.hpp"
#include "cpu/simd/isa.hpp"
#include "cuda/backend.hpp"
#include "engine/output_checks.hpp"
#include "engine/product/product.hpp"
#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kSampleBytes = 16u << 10;  // records that are read together
constexpr std::uint64_t kWholeBytes = 1u << 20;    // operands of no more than this are counted as a whole
constexpr std::uint64_t kMaxStride = 16;           // one sample in so many is read
constexpr unsigned kMaxThreads = 4;                // more take longer to start than they save
constexpr std::uint32_t kMaxCountedRows = 1u << 24;
constexpr std::uint64_t kExpectedDeviceBytes = std::uint64_t{64} << 30;

/// The host alone.
plan::Machine this_machine(const Options& options) {
  const std::uint64_t given = options.memory_limit_bytes;
  return {.num_cores = usable_cores(),
          .host_limit_bytes = given != 0 ? given : available_memory_bytes(),
          .isa = cpu::choose_isa(),
          .has_blas = cpu::has_dense_blas()};
}

/// One sample of records in so many.
std::uint64_t stride_of(const Source& source) {
  const auto bytes = static_cast<std::uint64_t>(plan::input_bytes(source.header()));
  return std::clamp<std::uint64_t>(bytes / kWholeBytes, 1, kMaxStride);
}

/// Calls visit(index) for the records of one sample in `stride`. Returns how many records stand for each that was
/// visited. Threads: visit from several at once.
template <class Visit>
double sample_indices(const Source& source, unsigned num_threads, Workers& workers, const Visit& visit) {
  const MatrixHeader& header = source.header();
  const std::uint64_t stride = stride_of(source);
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t per_sample = std::max<std::uint64_t>(1, kSampleBytes / record);
  const std::uint64_t num_samples = (header.num_blocks + per_sample * stride - 1) / (per_sample * stride);
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> num_visited{0};
  const auto work = [&](unsigned) {
    std::vector<std::byte> records(per_sample * record);
    for (std::uint64_t sample = next++; sample < num_samples; sample = next++) {
      // Somewhere in its part of the file: a fixed place could always meet the same part of a pattern.
      const std::uint64_t shift = sample * 0x9E37'79B9'7F4A'7C15u % stride;
      const std::uint64_t first = (sample * stride + shift) * per_sample;
      if (first >= header.num_blocks) continue;
      const std::uint64_t count = std::min<std::uint64_t>(per_sample, header.num_blocks - first);
      source.read(first, count, records.data());
      num_visited += count;
      for (std::uint64_t x = 0; x < count; ++x) {
        const BlockIndex at = read_index(records.data() + x * record);
        if (at.i < header.blocks_per_side() && at.j < header.blocks_per_side()) visit(at);
      }
    }
  };
  const std::uint64_t useful_threads = num_samples / 4 + 1;
  workers.run(static_cast<unsigned>(std::min<std::uint64_t>(useful_threads, num_threads)), work);
  return num_visited == 0 ? 1 : static_cast<double>(header.num_blocks) / static_cast<double>(num_visited);
}

}  // namespace

plan::Statistics sample_statistics(const ProductOperands& operands, unsigned num_threads, Workers& workers) {
  const Source& a = operands.inputs().a;
  const Source& b = operands.inputs().b;
  plan::Statistics s = operands.expected();
  std::vector<std::atomic<std::uint32_t>> b_blocks(s.nb());
  const double of_b = sample_indices(
      b, num_threads, workers, [&](const BlockIndex& at) { b_blocks[at.i].fetch_add(1, std::memory_order_relaxed); });
  std::atomic<std::uint64_t> pairs{0};
  const double of_a = sample_indices(a, num_threads, workers, [&](const BlockIndex& at) {
    const std::uint32_t found = b_blocks[at.j].load(std::memory_order_relaxed);
    if (found != 0) pairs.fetch_add(found, std::memory_order_relaxed);
  });
  const double evenly_spread = std::max(1.0, s.num_pairs);
  s.num_pairs = static_cast<double>(pairs.load()) * of_a * of_b;
  s.tile_pairs *= s.num_pairs / evenly_spread;
  s.num_c_blocks = std::min(s.num_c_blocks, s.num_pairs);
  s.likely_c_blocks = s.num_c_blocks;
  return s;
}

BackendChoice choose_backend(const ProductOperands& operands, const plan::Limits& limits, Workers& workers) {
  const plan::Statistics& expected = operands.expected();
  plan::Execution e = plan::decide(expected, limits);
  const bool fits = expected.nb() <= kMaxCountedRows && std::uint64_t{expected.nb()} * 4 <= limits.host_bytes / 8;
  if (e.backend == Backend::cpu && !e.is_refused() && fits) {
    const unsigned num_threads = std::clamp(limits.num_threads, 1U, kMaxThreads);
    e = plan::decide(sample_statistics(operands, num_threads, workers), limits);
  }
  return {.backend = e.backend,
          .cuda_s = e.predicted_cuda_s,
          .cpu_s = e.predicted_cpu_s,
          .num_devices = static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()))};
}

bool is_crowded_out(const plan::Statistics& expected, const plan::Limits& now, const plan::Limits& alone) {
  const plan::Execution best = plan::decide(expected, alone);
  if (best.is_refused()) return false;
  const plan::Execution e = plan::decide(expected, now);
  return e.is_refused() || e.id != best.id || e.num_a_slabs > best.num_a_slabs || e.num_b_slabs > best.num_b_slabs;
}

double expected_seconds(const MatrixHeader& a, const MatrixHeader& b, const Options& options) {
  plan::Machine machine = this_machine(options);
  const std::uint64_t given = options.memory_limit_bytes;
  if (options.backend != Backend::cpu && cuda::may_start(machine.why_no_gpu)) {
    machine.gpus.push_back({.limit_bytes = given != 0 ? given : kExpectedDeviceBytes, .has_dense_tensor = true});
  }
  plan::Limits limits = product_limits(machine, options);
  limits.has_scratch = true;  // products of files
  const plan::Execution e = plan::decide(plan::expected_statistics(a, b), limits);
  return e.is_refused() ? 0 : e.predicted_s;
}

unsigned expected_devices(const MatrixHeader& a, const MatrixHeader& b, const Options& options, unsigned num_visible,
                          bool discards_result) {
  plan::Machine machine = this_machine(options);
  const std::uint64_t given = options.memory_limit_bytes;
  for (unsigned x = 0; x < num_visible; ++x) {
    machine.gpus.push_back({.limit_bytes = given != 0 ? given : kExpectedDeviceBytes,
                            .has_dense_tensor = true,
                            .start_s = x == 0 ? plan::kDeviceStartS : plan::kMoreDeviceStartS});
  }
  const plan::Statistics expected = plan::expected_statistics(a, b);
  plan::Limits limits = product_limits(machine, options);
  limits.num_parts = wanted_parts(expected, options);
  limits.has_scratch = true;
  limits.discards_result = discards_result;
  const plan::Execution e = plan::decide(expected, limits);
  if (e.backend == Backend::cpu) return 0;
  return static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()));
}

}  // namespace spmm
