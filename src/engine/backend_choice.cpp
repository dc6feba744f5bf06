// The choice by headers, and by sampled indices if the CPU seems to be faster.
#include "engine/backend_choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/memory/machine_memory.hpp"
#include "cuda/backend.hpp"
#include "engine/product.hpp"
#include "engine/sampled_product.hpp"
#include "plan/decide.hpp"
#include "plan/times.hpp"

namespace spmm {
namespace {

constexpr unsigned kMaxThreads = 4;  // more take longer to start than they save
constexpr std::uint32_t kMaxCountedRows = 1u << 24;

/// Limits of this machine, where so many devices, none of them started, may be used.
plan::Limits limits_before_start(const Options& options, unsigned num_gpus) {
  const std::uint64_t given = options.memory_limit_bytes;
  plan::Limits limits = product_limits(options, given != 0 ? given : available_memory_bytes());
  limits.gpus.assign(num_gpus, {.bytes = given != 0 ? given : kUnseenDeviceBytes, .has_dense_tensor = true});
  return limits;
}

plan::Statistics with_c_blocks(plan::Statistics s, double c_blocks) {
  s.num_c_blocks = c_blocks;
  return s;
}

/// Whether the CPU would end first if the operands had hardly any pairs.
bool cpu_may_win(plan::Statistics s, const plan::Limits& limits) {
  s.num_pairs = 1;
  return plan::decide(with_c_blocks(s, 1), limits).backend == Backend::cpu;
}

/// Seconds to look at all indices: each record is copied and compared.
double counting_seconds(const plan::Statistics& s, const plan::Limits& limits) {
  constexpr double kNsPerRecord = 12;  // four threads, 4e6 records: 34 ms of processor time, a third of it by one
  plan::Limits of_choice = limits;
  of_choice.num_threads = std::clamp(limits.num_threads, 1U, kMaxThreads);
  return plan::read_seconds(plan::input_bytes(s.a) + plan::input_bytes(s.b), of_choice) +
         static_cast<double>(s.num_blocks()) * kNsPerRecord / 1e9 / of_choice.num_threads;
}

/// Decides on sampled pairs; if it depends on the number of C blocks, also on those of as many records as it is worth
/// to read.
plan::Execution decide_on_samples(const ProductOperands& operands, const plan::Limits& limits, Workers& workers) {
  constexpr double kWorthReading = 0.05;  // of the product, for reading records of both operands once more
  const unsigned num_threads = std::clamp(limits.num_threads, 1U, kMaxThreads);
  const SampledProduct sample(operands, num_threads, workers);
  const plan::Statistics& s = sample.statistics();
  const double nb = s.nb();
  plan::Execution e = plan::decide(with_c_blocks(s, std::max(1.0, s.num_pairs / nb)), limits);
  if (plan::decide(with_c_blocks(s, std::min(s.num_pairs, nb * nb)), limits).backend == e.backend)
    return plan::decide(s, limits);
  const double worth = std::ceil(counting_seconds(s, limits) / (kWorthReading * e.predicted_s));
  const double stride = std::clamp(worth, 1.0, static_cast<double>(sample.least_stride()));
  return plan::decide(sample.count_c_blocks(static_cast<std::uint64_t>(stride)), limits);
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
          .times = e.compared.value_or(BackendTimes{}),
          .num_devices = static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()))};
}

plan::Statistics sampled_statistics(const ProductOperands& operands, unsigned num_threads, Workers& workers,
                                    bool counts_c_blocks) {
  constexpr std::uint32_t kQuicklyCounted = 1u << 22;  // block rows
  constexpr double kFewPairs = 1;
  const plan::Statistics& expected = operands.expected();
  if (expected.nb() > (counts_c_blocks ? kMaxCountedRows : kQuicklyCounted)) return expected;
  const SampledProduct sample(operands, std::clamp(num_threads, 1U, kMaxThreads), workers);
  if (sample.statistics().num_pairs < kFewPairs) return expected;
  if (!counts_c_blocks) {
    const plan::Statistics& s = sample.statistics();
    return with_c_blocks(s, std::min(s.num_pairs, static_cast<double>(s.nb()) * s.nb()));
  }
  constexpr std::uint64_t kCountedRecords = 4u << 20;  // of an operand, for C blocks: 0.1 s at most
  const std::uint64_t most = std::max(expected.a.num_blocks, expected.b.num_blocks);
  return sample.count_c_blocks((most + kCountedRecords - 1) / kCountedRecords);
}

Plan expected_plan(const Source& a, const Source& b, const Options& options, Expecting expecting) {
  std::string why_no_gpu;
  const bool has_gpu = options.backend != Backend::cpu && cuda::may_start(why_no_gpu);
  plan::Limits limits = limits_before_start(options, has_gpu ? 1 : 0);
  limits.why_no_gpu = why_no_gpu;
  ProductOptions whole = options;
  whole.rows = {};  // picking rows reads all of A
  StageClock clock;
  Workers workers;
  const ProductOperands operands(a, b, whole, {.clock = clock, .on_progress = whole.on_progress});
  plan::Statistics s = operands.expected();
  if (expecting != Expecting::most) {
    s = sampled_statistics(operands, limits.num_threads, workers, expecting == Expecting::sample);
  } else {
    const double nb = s.nb();
    s.num_pairs = s.a.num_blocks * std::min<double>(s.b.num_blocks, nb);
    s.num_c_blocks = std::min(s.num_pairs, nb * nb);
  }
  const RowRange rows = checked_rows(options.rows, s.nb());
  const double share = s.nb() == 0 ? 1 : static_cast<double>(rows.end - rows.first) / s.nb();
  s.num_pairs *= share;
  s.num_c_blocks *= share;
  plan::Execution e = plan::decide(s, limits);
  if (e.is_refused()) e.predicted_s = 0;
  s = plan::expected_of_selection(s, limits.selection);
  e.expected_pairs = s.num_pairs;
  e.expected_output_blocks = s.num_c_blocks;
  return e;
}

unsigned expected_devices(const MatrixHeader& a, const MatrixHeader& b, const Options& options, unsigned num_visible,
                          bool discards_result) {
  plan::Limits limits = limits_before_start(options, num_visible);
  for (plan::Gpu& gpu : limits.gpus) {
    gpu.start_s = &gpu == &limits.gpus.front() ? plan::kDeviceStartS : plan::kMoreDeviceStartS;
  }
  limits.discards_result = discards_result;
  const plan::Execution e = plan::decide(plan::expected_of_rows(a, b, options.rows), limits);
  if (e.backend == Backend::cpu) return 0;
  return static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()));
}

}  // namespace spmm
