#include "plan/partition.hpp"

#include <algorithm>
#include <cmath>

#include "plan/run_models.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

struct Division {
  std::size_t a = 0;  // index of kSlabCounts
  std::size_t b = 0;

  [[nodiscard]] std::uint32_t num_a() const { return kSlabCounts.at(a); }
  [[nodiscard]] std::uint32_t num_b() const { return kSlabCounts.at(b); }
};

MatrixHeader with_blocks(MatrixHeader header, std::uint64_t num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(num_blocks);
  return header;
}

/// Blocks of the largest of some slabs.
std::uint64_t largest_slab(const MatrixHeader& header, const std::vector<std::uint64_t>& counted, std::size_t x) {
  const std::uint64_t share = (std::uint64_t{header.num_blocks} + kSlabCounts.at(x) - 1) / kSlabCounts.at(x);
  return counted.empty() ? share : counted.at(x);
}

/// Blocks of B that the slabs of A of a division read: all of one of its slabs, or the block rows that blocks of A
/// meet.
std::uint64_t largest_slab_of_b(const Statistics& whole, const Division& d, std::uint64_t largest_a) {
  if (d.b != 0) return largest_slab(whole.b, whole.b_slab_blocks, d.b);
  if (d.a == 0) return whole.b.num_blocks;
  if (!whole.needed_b_blocks.empty()) return whole.needed_b_blocks.at(d.a);
  const double groups = static_cast<double>(num_row_groups(whole.b));
  const double met = 1 - std::exp(-static_cast<double>(largest_a) / groups);
  const double even_share = 1.0 / d.num_a();  // groups that no block meets are read, too
  return static_cast<std::uint64_t>(std::ceil(whole.b.num_blocks * std::max(met, even_share)));
}

/// The largest product of two slabs. A slab of A with the rows of B that it needs has all of its pairs.
Statistics slab_statistics(const Statistics& whole, const Division& d, std::uint64_t largest_a,
                           std::uint64_t largest_b) {
  Statistics slabs = expected_statistics(with_blocks(whole.a, largest_a), with_blocks(whole.b, largest_b));
  if (d.b != 0 || whole.a.num_blocks == 0) return slabs;
  const double share = static_cast<double>(largest_a) / whole.a.num_blocks;
  slabs.num_pairs = whole.num_pairs * share;
  slabs.num_c_blocks = whole.num_c_blocks * share;
  slabs.tile_pairs = whole.tile_pairs * share;
  slabs.likely_c_blocks = whole.likely_c_blocks * share;
  return slabs;
}

/// Expected bytes of the result of the largest slab of A.
double result_bytes_of_slab(const Statistics& whole, std::uint64_t largest_a) {
  const double share = whole.a.num_blocks == 0 ? 0 : static_cast<double>(largest_a) / whole.a.num_blocks;
  return whole.num_c_blocks * share * static_cast<double>(output_record_bytes(whole.m()));
}

/// Every slab of A is multiplied by every slab of B, or by what it needs of B; each of these products passes over both
/// files for its records, builds both slabs anew and multiplies. Results of several slabs of B are merged.
double total_seconds(const Statistics& whole, const Execution& slab, const Statistics& slabs, const Division& d,
                     const Limits& limits) {
  const double slab_products = static_cast<double>(d.num_a()) * d.num_b();
  const double passed_over = input_bytes(whole.a) + input_bytes(whole.b) - input_bytes(slabs.a) - input_bytes(slabs.b);
  const double result_bytes = whole.num_c_blocks * static_cast<double>(output_record_bytes(whole.m()));
  const double merging = d.num_b() > 1 ? merge_seconds(result_bytes) : 0;
  return slab_products * (product_seconds(slab, slabs, limits) + read_seconds(std::max(0.0, passed_over), limits)) +
         merging + start_seconds(slab, limits);
}

/// A division, and whether the results that wait to be merged are expected to fit. They may be smaller than expected,
/// so nothing is refused for that; such a division only comes after all others.
struct Option {
  Execution execution{};
  bool keeps_results = true;
};

bool is_better(const Option& x, const Option& y) {
  const Execution& e = x.execution;
  const Execution& best = y.execution;
  if (e.is_refused() != best.is_refused()) return !e.is_refused();
  if (e.is_refused()) return e.refusal.need_bytes < best.refusal.need_bytes;
  if (x.keeps_results != y.keeps_results) return x.keeps_results;
  return e.predicted_s < best.predicted_s;
}

/// The largest product of two slabs of a division.
Option decide_division(const Statistics& whole, const Limits& limits, const Division& d, DecideSlab decide_slab) {
  constexpr double kMargin = 1.25;  // rows differ; what is larger is cut in halves later, after work in vain
  const std::uint64_t lists = d.num_b() > 1 ? slab_list_bytes(whole.a, whole.b) : needed_list_bytes(whole.a, whole.b);
  const std::uint64_t largest_a = largest_slab(whole.a, whole.a_slab_blocks, d.a);
  const std::uint64_t largest_b = largest_slab_of_b(whole, d, largest_a);
  const Statistics slabs = slab_statistics(whole, d, largest_a, largest_b);
  const std::uint64_t left = limits.host_bytes - std::min(limits.host_bytes, lists);
  const std::uint64_t kept = d.num_b() > 1 ? left / 2 : 0;
  Limits slab_limits = limits;
  slab_limits.host_bytes = left - kept;
  Execution e = decide_slab(slabs, slab_limits);
  e.a_bands = d.num_a();
  e.b_bands = d.num_b();
  e.kept_bytes = kept;
  e.slab_limits = slab_limits;
  if (e.is_refused()) {
    // What would do: where results are kept, they take the smaller half.
    if (e.refusal.what == kHostMemory) {
      const std::uint64_t need = e.refusal.need_bytes;
      e.refusal.need_bytes = (d.num_b() > 1 ? 2 * need - 1 : need) + lists;
    }
    return {.execution = std::move(e)};
  }
  e.host_limit_bytes = limits.host_bytes;
  e.host_need_bytes += lists + kept;
  e.predicted_s = total_seconds(whole, e, slabs, d, limits);
  e.expected_pairs = whole.num_pairs;
  e.expected_output_blocks = whole.num_c_blocks;
  e.expected_panels *= std::uint64_t{d.num_a()} * d.num_b();
  const double kept_results = kMargin * result_bytes_of_slab(whole, largest_a);
  return {.execution = std::move(e), .keeps_results = kept == 0 || kept_results <= static_cast<double>(kept)};
}

}  // namespace

std::uint64_t slab_list_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kPerRecord = sizeof(std::uint16_t) + sizeof(std::uint32_t);  // bucket, number in its slab
  return (std::uint64_t{a.num_blocks} + b.num_blocks) * kPerRecord + 2 * kNumBuckets * sizeof(std::uint64_t);
}

std::uint64_t num_row_groups(const MatrixHeader& b) {
  return std::max<std::uint64_t>(1, std::min<std::uint64_t>(b.blocks_per_side(), b.num_blocks / 2));
}

std::uint64_t needed_list_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kPerRecordOfA = sizeof(std::uint16_t) + sizeof(std::uint32_t);  // bucket; group, then number
  constexpr std::uint64_t kPerRecordOfB = 2 * sizeof(std::uint32_t);                      // group, number in its slab
  constexpr std::uint64_t kPerGroup = sizeof(std::uint32_t) + sizeof(std::uint64_t);      // blocks, slabs that read it
  return a.num_blocks * kPerRecordOfA + b.num_blocks * kPerRecordOfB + num_row_groups(b) * kPerGroup +
         2 * kNumBuckets * sizeof(std::uint64_t);
}

Execution decide_slabs(const Statistics& whole, const Limits& limits, DecideSlab decide_slab) {
  Option best;
  best.execution.refusal.kind = Refusal::Kind::memory;
  best.execution.refusal.need_bytes = ~std::uint64_t{0};
  for (std::size_t a = 0; a < kSlabCounts.size(); ++a) {
    for (std::size_t b = 0; b < kSlabCounts.size(); ++b) {
      if (a == 0 && b == 0) continue;
      Option option = decide_division(whole, limits, {.a = a, .b = b}, decide_slab);
      if (is_better(option, best)) best = std::move(option);
    }
  }
  return best.execution;
}

}  // namespace spmm::plan
