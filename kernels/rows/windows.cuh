// The phases of row-rank before its products: pieces of rows, the columns of each, windows of these.
#pragma once

#include <cstdint>

#include "kernels/rows/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

/// How the CTAs that multiply are made up.
struct RankShape {
  RankCta cta;
  std::uint32_t slots = 0;  // C blocks at a time
};

/// Ticket counters of RankScratch.counters.
enum RankCounter : std::uint32_t { kPieceTicket, kWindowTicket, kColumnsFound, kSplitsPlaced };

/// Pieces of each row of the panel; 0 behind the last one, so that the scan ends with the total.
struct PiecesOfRow {
  RowProduct product;
  std::uint32_t row_begin;
  std::uint32_t num_rows;
  const ColumnSpan* spans;  // [num_rows], device

  __device__ std::uint32_t operator()(std::uint64_t x) const {
    if (x >= num_rows) return 0;
    const std::uint64_t num_pairs = product.pairs_of_row(static_cast<std::uint32_t>(row_begin + x));
    const std::uint64_t words = (std::uint64_t{spans[x].count} + 31) / 32;
    return static_cast<std::uint32_t>(min(1 + num_pairs / kRowPiecePairs, words));
  }
};

/// Windows << 32 | C blocks of each piece; 0 behind the last one.
struct CountsOfPiece {
  const RowPiece* pieces;
  const std::uint32_t* num_pieces;

  __device__ std::uint64_t operator()(std::uint64_t x) const {
    if (x >= *num_pieces) return 0;
    return std::uint64_t{pieces[x].num_windows()} << 32 | pieces[x].count;
  }
};

/// Lists the pieces of a panel in result order: scratch.piece_offsets, scratch.pieces.
void launch_row_pieces(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       cudaStream_t stream);

/// Finds the columns of all pieces.
void launch_rank_columns(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         RankShape shape, cudaStream_t stream);

/// Cuts the columns of the pieces into windows, finds their split offsets, and counts C blocks: *out.num_blocks.
void launch_rank_windows(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
