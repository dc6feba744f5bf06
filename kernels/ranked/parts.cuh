// The phases of row-rank before its products: parts of rows, the columns of each, windows of these.
#pragma once

#include <cstdint>

#include "kernels/ranked/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

/// How the CTAs that multiply are made up.
struct RankShape {
  RankCta cta;
  std::uint32_t slots = 0;  // C blocks at a time
};

/// Ticket counters of RankScratch.counters.
enum RankCounter : std::uint32_t { kPartTicket, kWindowTicket, kColumnsFound, kSplitsPlaced };

/// Pairs of a row of A.
__device__ inline std::uint64_t pairs_of_rank_row(const RankedProduct& product, std::uint32_t row) {
  const std::uint32_t* const offsets = product.a.index.offsets;
  return product.pair_offsets[offsets[row + 1]] - product.pair_offsets[offsets[row]];
}

/// Parts of a row. Values: of one that has pairs in this panel.
__device__ inline std::uint32_t parts_of_row(std::uint64_t num_pairs, RowSpan span) {
  const std::uint64_t words = (std::uint64_t{span.count} + 31) / 32;
  const std::uint64_t parts = 1 + num_pairs / kRankPartPairs;
  return static_cast<std::uint32_t>(parts < words ? parts : words);
}

/// Blocks [from, to) of B's row with columns from `first` to `last`. Both ends are searched at once: each step waits
/// for memory.
struct BRange {
  std::uint32_t from;
  std::uint32_t to;
};
__device__ inline BRange find_range(const std::uint32_t* columns, std::uint32_t begin, std::uint32_t end,
                                    std::uint32_t first, std::uint32_t last) {
  std::uint32_t from = begin;
  std::uint32_t from_end = end;
  std::uint32_t to = begin;
  std::uint32_t to_end = end;
#pragma unroll 1
  while (from < from_end || to < to_end) {
    const std::uint32_t from_middle = (from + from_end) / 2;
    const std::uint32_t to_middle = (to + to_end) / 2;
    const std::uint32_t at_from = from < from_end ? __ldg(columns + from_middle) : 0;
    const std::uint32_t at_to = to < to_end ? __ldg(columns + to_middle) : 0;
    if (from < from_end) {
      if (at_from < first) {
        from = from_middle + 1;
      } else {
        from_end = from_middle;
      }
    }
    if (to < to_end) {
      if (at_to <= last) {
        to = to_middle + 1;
      } else {
        to_end = to_middle;
      }
    }
  }
  return {from, to};
}

/// Lists the parts of a panel in result order: scratch.part_offsets, scratch.parts.
void launch_rank_parts(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       cudaStream_t stream);

/// Finds the columns of all parts.
void launch_rank_columns(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         RankShape shape, cudaStream_t stream);

/// Cuts the columns of the parts into windows, finds their split offsets, and counts C blocks: *num_blocks.
void launch_rank_windows(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         std::uint32_t* num_blocks, cudaStream_t stream);

}  // namespace spmm::kernels
