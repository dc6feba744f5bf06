// The choice by headers, and by sampled indices if the CPU seems to be faster.
#include "engine/backend_choice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/memory/machine_memory.hpp"
#include "cuda/backend.hpp"
#include "engine/product.hpp"
#include "io/factor_source.hpp"
#include "plan/choice.hpp"
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

plan::Counts with_c_blocks(plan::Counts s, double c_blocks) {
  s.num_c_blocks = c_blocks;
  return s;
}

double most_c_blocks(const plan::Counts& s) {
  return std::min(s.num_pairs, static_cast<double>(s.nb()) * s.nb());
}

/// Whether the CPU would end first if the operands had hardly any pairs.
bool cpu_may_win(plan::Counts s, const plan::Limits& limits) {
  s.num_pairs = 1;
  return plan::decide(with_c_blocks(s, 1), limits).backend == Backend::cpu;
}

/// Whether all indices are worth reading: in a tenth of the time of the product, or in least_s.
bool is_worth_reading(const plan::Counts& s, double product_s, double least_s, const plan::Limits& limits) {
  constexpr double kNsPerRecord = 12;  // four threads, 4e6 records: 34 ms of processor time, a third of it by one
  constexpr double kShare = 0.1;
  plan::Limits of_choice = limits;
  of_choice.num_threads = std::clamp(limits.num_threads, 1U, kMaxThreads);
  const double seconds = plan::read_seconds(plan::input_bytes(s.a) + plan::input_bytes(s.b), of_choice) +
                         static_cast<double>(s.num_blocks()) * kNsPerRecord / 1e9 / of_choice.num_threads;
  return seconds <= std::max(least_s, kShare * product_s);
}

}  // namespace

plan::Choice choose_backend(const Inputs& inputs, const plan::Limits& limits, Workers& workers) {
  constexpr double kLeastS = 0.002;
  const plan::Counts expected = expected_of(inputs);
  plan::Choice e = plan::decide(expected, limits);
  const bool fits = expected.nb() <= kMaxCountedRows && std::uint64_t{expected.nb()} * 4 <= limits.host_bytes / 8;
  if (e.is_refused() || !fits || (e.backend != Backend::cpu && !cpu_may_win(expected, limits))) return e;
  const plan::Counts s =
      sampled(inputs, std::clamp(limits.num_threads, 1U, kMaxThreads), workers, [&](const plan::Counts& pairs) {
        const double least_c_blocks = std::max(1.0, pairs.num_pairs / pairs.nb());
        const plan::Choice least = plan::decide(with_c_blocks(pairs, least_c_blocks), limits);
        return plan::decide(with_c_blocks(pairs, most_c_blocks(pairs)), limits).backend != least.backend &&
               is_worth_reading(pairs, least.predicted_s, kLeastS, limits);
      });
  return plan::decide(s, limits);
}

plan::Counts expected_counts(const Inputs& inputs, const plan::Limits& limits, Workers& workers, Expecting expecting) {
  constexpr std::uint32_t kQuicklyCounted = 1u << 22;  // block rows
  constexpr double kFewPairs = 1;
  constexpr double kLeastS = 0.5;
  plan::Counts expected = expected_of(inputs);
  if (expecting == Expecting::most) {
    expected.num_pairs = expected.a.num_blocks * std::min<double>(expected.b.num_blocks, expected.nb());
    return with_c_blocks(expected, most_c_blocks(expected));
  }
  const bool counts = expecting == Expecting::sample;
  if (expected.nb() > (counts ? kMaxCountedRows : kQuicklyCounted)) return expected;
  bool is_worth = counts;
  const plan::Counts s =
      sampled(inputs, std::clamp(limits.num_threads, 1U, kMaxThreads), workers, [&](const plan::Counts& pairs) {
        const double product_s = plan::decide(pairs, limits).predicted_s;
        return is_worth = counts && is_worth_reading(pairs, product_s, kLeastS, limits);
      });
  if (s.num_pairs < kFewPairs) return expected;
  return is_worth ? s : with_c_blocks(s, most_c_blocks(s));
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
  const Inputs inputs = as_multiplied(a, b, whole, {.clock = clock, .on_progress = whole.on_progress});
  plan::Counts s = expected_counts(inputs, limits, workers, expecting);
  const RowRange rows = checked_rows(options.rows, s.nb());
  const double share = s.nb() == 0 ? 1 : static_cast<double>(rows.end - rows.first) / s.nb();
  s.num_pairs *= share;
  s.num_c_blocks *= share;
  plan::Choice e = plan::decide(s, limits);
  if (e.is_refused()) e.predicted_s = 0;
  s = plan::expected_of_selection(s, limits.selection, limits.rows);
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
  const plan::Choice e = plan::decide(plan::expected_of_rows(a, b, options.rows), limits);
  if (e.backend == Backend::cpu) return 0;
  return static_cast<unsigned>(std::max<std::size_t>(1, e.devices.size()));
}

}  // namespace spmm
