// The door to sums by row: row-spread and row-rank, operands padded to padded_side(m). Declarations without CUDA
// syntax. Stream: every launch is asynchronous on the given stream and waits for nothing. Errors: CudaError from the
// launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// Blocks of B that a warp reads at once.
inline constexpr std::uint32_t kUnitBlocks = 4;

// ---- spread.cu

/// row-spread: a CTA for each block row and column chunk, sums in shared memory; writes records. Visits every C block
/// of the panel (c_blocks.keys null). are_written: every C block with pairs, as none is zero, or zeros are records,
/// too. Then the CTAs know before they multiply what they will write, and none waits for the results of another.
void launch_mul_spread(const RowProduct& product, const CBlocksView& c_blocks, bool are_written,
                       const RecordOutput& out, cudaStream_t stream);

// ---- windows.cu, columns.cu, ranked.cu

/// A piece of a row of C, whose columns one CTA finds. It is listed with its share of the row's span; once that is
/// searched, with its columns, which lie among those of the panel in any order.
struct RowPiece {
  std::uint32_t row = 0;     // row index
  std::uint32_t first = 0;   // column of the piece; then: of its columns, among those of the panel
  std::uint32_t count = 0;   // columns of the piece; then: C blocks
  std::uint32_t window = 0;  // once searched: C blocks whose sums a CTA takes at a time

  [[nodiscard]] SPMM_HOST_DEVICE std::uint32_t num_windows() const { return count == 0 ? 0 : (count - 1) / window + 1; }
};

inline constexpr std::uint32_t kWholeRow = 1u << 31;     // no other C blocks in the row
inline constexpr std::uint32_t kLastOfPiece = 1u << 30;  // and split offsets of its end are not those of another window

/// Some successive C blocks of a row: the work of a CTA.
struct RankWindow {
  std::uint32_t row = 0;     // row index
  std::uint32_t first = 0;   // of its columns, among those of the panel
  std::uint32_t count = 0;   // C blocks; and kWholeRow, kLastOfPiece
  std::uint32_t record = 0;  // of its first C block, in result order
  std::uint32_t splits = 0;  // of its first split offset, one for each block of A's row: where the window begins in B's
                             // row; as many behind them say where it ends. kNoRow: there are none

  [[nodiscard]] SPMM_HOST_DEVICE std::uint32_t num_c_blocks() const { return count & ~(kWholeRow | kLastOfPiece); }
};

/// Scratch of launch_mul_ranked.
struct RankScratch {
  std::uint64_t max_pieces = 0;    // max_row_pieces of the panel
  std::uint64_t max_c_blocks = 0;  // of the panel
  std::uint64_t max_splits = 0;
  std::uint32_t max_span = 0;              // of a row of the product
  std::uint64_t mean_row_pairs = 0;        // of the panel
  bool has_all_columns = true;             // the panel: else rows of B have blocks beside it
  ColumnSpan* spans = nullptr;             // [rows of the panel], device
  std::uint32_t* piece_offsets = nullptr;  // [rows of the panel + 1], device
  RowPiece* pieces = nullptr;              // [max_pieces], device
  std::uint64_t* counts_before = nullptr;  // [max_pieces + 1], device: windows << 32 | C blocks
  RankWindow* windows = nullptr;           // [max_rank_windows], device
  std::uint32_t* columns = nullptr;        // [max_c_blocks], device
  std::uint32_t* splits = nullptr;         // [max_splits], device
  unsigned long long* counters = nullptr;  // [kRankCounters], device
  std::uint32_t* unpacked = nullptr;       // [max_c_blocks, 2 + m * m], device: records of C blocks that may be zero
  std::uint8_t* non_zero = nullptr;        // [max_c_blocks], device; null = no C block can be zero
  Workspace work;
};

/// Tickets of two kernels, columns and split offsets that have their place.
inline constexpr std::uint32_t kRankCounters = 4;

/// Scratch bytes of launch_mul_ranked.
std::size_t ranked_workspace_bytes(std::uint64_t max_rows, std::uint64_t max_pieces, std::uint64_t max_c_blocks);

/// *max_span = columns between the first and the last pair of a row, both included, at most. Shapes: max_span [1],
/// device.
void launch_max_span(const RowProduct& product, std::uint32_t* max_span, cudaStream_t stream);

/// row-rank, m up to kMaxRankedSide. Row by row: finds the columns of the C blocks that exist, then their sums by rank
/// among these; writes records. All columns of the panel (c_blocks.keys null). look_back of `out` is not used.
void launch_mul_ranked(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                       const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
