// The choice between rows and the inner dimension, by counts.
#include "mpi/divide/inner_split.hpp"

#include "mpi/exchange/record_store.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {
namespace {

/// A pair takes as long as so many bytes on their way from one rank's arrays to another's: README.md has the figures.
constexpr double kMultiplyAddsPerByte = 16;
/// What must be gained. A margin, not measured: counts are exact, rates are not.
constexpr double kLeastGain = 1.2;

double pair_bytes(std::uint64_t pairs, std::uint32_t m) {
  return static_cast<double>(pairs) * m * m * m / kMultiplyAddsPerByte;
}

}  // namespace

bool fits_inner(const SplitCounts& counts) {
  const std::uint64_t quarter = counts.limit_bytes / 4;
  const std::uint64_t out = output_record_bytes(counts.m);
  const std::uint64_t stored = counts.b_blocks_at_home + counts.a_blocks_by_inner + counts.b_blocks_by_inner;
  return counts.num_ranks > 1 && stored * counts.stored_bytes <= 2 * quarter &&
         counts.partial_c_blocks * out <= quarter && 2 * counts.round_c_blocks * out <= quarter;  // sent and received
}

bool splits_inner(const SplitCounts& counts) {
  if (!fits_inner(counts)) return false;
  const auto in = static_cast<double>(sent_record_bytes(counts.m));
  const auto out = static_cast<double>(output_record_bytes(counts.m));
  const double by_rows = pair_bytes(counts.pairs_by_rows, counts.m) + static_cast<double>(counts.b_blocks_by_rows) * in;
  const double by_inner = pair_bytes(counts.pairs_by_inner, counts.m) +
                          static_cast<double>(counts.b_blocks_by_inner) * in +
                          static_cast<double>(counts.partial_c_blocks + counts.merged_c_blocks) * out;
  return by_inner * kLeastGain < by_rows;
}

}  // namespace spmm::mpi
