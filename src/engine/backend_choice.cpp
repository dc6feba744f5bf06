// The choice by headers, and by sampled indices if the CPU seems to be faster.
#include "engine/backend_choice.hpp"

#include <algorithm>
#include <cstdint>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"
#include "cpu/backend.hpp"
#include "cpu/simd/isa.hpp"
#include "cuda/backend.hpp"
#include "engine/product/product.hpp"
#include "engine/sampled_product.hpp"
#include "plan/decide.hpp"
#include "plan/models/run_models.hpp"

namespace spmm {
namespace {

constexpr unsigned kMaxThreads = 4;  // more take longer to start than they save
constexpr std::uint32_t kMaxCountedRows = 1u << 24;

plan::Statistics with_c_blocks(plan::Statistics s, double c_blocks) {
  s.num_c_blocks = s.likely_c_blocks = c_blocks;
  return s;
}

/// Whether the CPU would end first if the operands had hardly any pairs.
bool cpu_may_win(plan::Statistics s, const plan::Limits& limits) {
  s.num_pairs = s.tile_pairs = 1;
  return plan::decide(with_c_blocks(s, 1), limits).backend == Backend::cpu;
}

/// Decides on sampled pairs; on counted C blocks, too, if it depends on their number.
plan::Execution decide_on_samples(const ProductOperands& operands, const plan::Limits& limits, Workers& workers) {
  constexpr double kWorthReading = 0.02;  // of the product, for reading both operands once more
  const SampledProduct sample(operands, std::clamp(limits.num_threads, 1U, kMaxThreads), workers);
  const plan::Statistics& s = sample.statistics();
  const double nb = s.nb();
  const plan::Execution fewest = plan::decide(with_c_blocks(s, std::max(1.0, s.num_pairs / nb)), limits);
  const plan::Execution most = plan::decide(with_c_blocks(s, std::min(s.num_pairs, nb * nb)), limits);
  if (fewest.backend == most.backend) return plan::decide(s, limits);
  const double reading_s = plan::read_seconds(plan::input_bytes(s.a) + plan::input_bytes(s.b), limits);
  return plan::decide(sample.count_c_blocks(reading_s < kWorthReading * fewest.predicted_s), limits);
}

}  // namespace

BackendChoice choose_backend(const ProductOperands& operands, const plan::Limits& limits, Workers& workers) {
  const plan::Statistics& expected = operands.expected();
  plan::Execution e = plan::decide(expected, limits);
  const bool fits = expected.nb() <= kMaxCountedRows && std::uint64_t{expected.nb()} * 4 <= limits.host_bytes / 8;
  if (!e.is_refused() && fits && (e.backend == Backend::cpu || cpu_may_win(expected, limits))) {
    e = decide_on_samples(operands, limits, workers);
  }
  return {.backend = e.backend,
          .cuda_s = e.predicted_cuda_s,
          .cpu_s = e.predicted_cpu_s,
          .num_devices = static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()))};
}

double expected_seconds(const MatrixHeader& a, const MatrixHeader& b, const Options& options) {
  const std::uint64_t given = options.memory_limit_bytes;
  plan::Machine machine{.num_cores = usable_cores(),
                        .host_limit_bytes = given != 0 ? given : available_memory_bytes(),
                        .isa = cpu::choose_isa(),
                        .has_blas = cpu::has_dense_blas()};
  if (options.backend != Backend::cpu && cuda::may_start(machine.why_no_gpu)) {
    machine.gpus.push_back({.limit_bytes = given != 0 ? given : kUnseenDeviceBytes, .has_dense_tensor = true});
  }
  plan::Limits limits = product_limits(machine, options);
  limits.has_scratch = true;  // products of files
  const plan::Execution e = plan::decide(plan::expected_statistics(a, b), limits);
  return e.is_refused() ? 0 : e.predicted_s;
}

}  // namespace spmm
