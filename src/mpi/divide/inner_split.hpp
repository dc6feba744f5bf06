// Whether ranks take block rows of C or parts of the inner dimension. A pure function of exact counts.
#pragma once

#include <cstdint>

namespace spmm::mpi {

/// What a rank does at most in either division; bounds where counts are not known yet.
struct SplitCounts {
  std::uint32_t num_ranks = 1;
  std::uint32_t m = 1;
  std::uint64_t limit_bytes = 0;   ///< memory of a rank
  std::uint64_t stored_bytes = 0;  ///< of a record of A or B, before the product

  std::uint64_t pairs_by_rows = 0;
  std::uint64_t b_blocks_by_rows = 0;  ///< that the rank fetches
  std::uint64_t pairs_by_inner = 0;
  std::uint64_t a_blocks_by_inner = 0;
  std::uint64_t b_blocks_by_inner = 0;

  std::uint64_t b_blocks_at_home = 0;
  std::uint64_t partial_c_blocks = 0;  ///< of the partial product
  std::uint64_t merged_c_blocks = 0;   ///< of the partial products of all ranks, that the rank adds up
  std::uint64_t round_c_blocks = 0;    ///< the same of one round
};

/// By rows the ranks fetch the block rows of B that they meet, each of them often on several ranks, and a heavy row of
/// C is one rank's. By parts of the inner dimension each block of A and B is on one rank, and pairs are balanced
/// however few rows there are; but every rank has a partial product of all of C, which is sent and added up. True where
/// the latter moves clearly less and fits the memory of every rank.
bool splits_inner(const SplitCounts& counts);
/// Whether parts of the inner dimension and their products fit the memory of every rank, and there is more than one.
bool fits_inner(const SplitCounts& counts);

}  // namespace spmm::mpi
