// The phases of row-rank before its products: pieces of rows, the columns of each, windows of these.
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
enum RankCounter : std::uint32_t { kPieceTicket, kWindowTicket, kColumnsFound, kSplitsPlaced };

/// Pieces of a row. Values: of one that has pairs in this panel.
__device__ inline std::uint32_t pieces_of_row(std::uint64_t num_pairs, ColumnSpan span) {
  const std::uint64_t words = (std::uint64_t{span.count} + 31) / 32;
  const std::uint64_t pieces = 1 + num_pairs / kRowPiecePairs;
  return static_cast<std::uint32_t>(pieces < words ? pieces : words);
}

/// Pieces of each row of the panel; 0 behind the last one, so that the scan ends with the total.
struct PiecesOfRow {
  RankedProduct product;
  std::uint32_t row_begin;
  std::uint32_t num_rows;
  const ColumnSpan* spans;  // [num_rows], device

  __device__ std::uint32_t operator()(std::uint64_t x) const {
    if (x >= num_rows) return 0;
    const auto row = static_cast<std::uint32_t>(row_begin + x);
    return pieces_of_row(pairs_of_row(product.a.index, product.pair_offsets, row), spans[x]);
  }
};

__device__ inline std::uint32_t windows_of(const RowPiece& piece) {
  return piece.count == 0 ? 0 : (piece.count - 1) / piece.rest + 1;
}

/// Windows << 32 | C blocks of each piece; 0 behind the last one.
struct CountsOfPiece {
  const RowPiece* pieces;
  const std::uint32_t* num_pieces;

  __device__ std::uint64_t operator()(std::uint64_t x) const {
    if (x >= *num_pieces) return 0;
    const RowPiece piece = pieces[x];
    return std::uint64_t{windows_of(piece)} << 32 | piece.count;
  }
};

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

/// Lists the pieces of a panel in result order: scratch.piece_offsets, scratch.pieces.
void launch_row_pieces(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       cudaStream_t stream);

/// Finds the columns of all pieces.
void launch_rank_columns(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         RankShape shape, cudaStream_t stream);

/// Cuts the columns of the pieces into windows, finds their split offsets, and counts C blocks: *out.num_blocks.
void launch_rank_windows(const RankedProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
