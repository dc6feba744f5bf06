// The blocks of B's rows that fall into some block columns, the columns of rows of C, and the records of one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/grid.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// Block columns cut into chunks, and where these begin in the rows of B.
struct RowSplits {
  std::uint32_t column_begin = 0;
  std::uint32_t num_columns = 0;
  std::uint32_t width = 0;  // of a chunk; the last one may have less
  std::uint32_t num_chunks = 0;
  std::uint32_t* offsets = nullptr;  // [rows of B, num_chunks + 1], device: first block in each chunk, and the end;
                                     // null = they are searched where they are needed

  [[nodiscard]] SPMM_HOST_DEVICE std::uint64_t num_offsets(const CompressedView& b) const {
    return std::uint64_t{b.num_rows} * (num_chunks + 1);
  }
  /// First column of a chunk, or the end of the last one.
  [[nodiscard]] SPMM_HOST_DEVICE std::uint32_t first_column(std::uint32_t chunk) const {
    const std::uint32_t skipped = chunk * width;
    return column_begin + (skipped < num_columns ? skipped : num_columns);
  }
};

/// Writes splits.offsets, if they are wanted, and clears look-back states. Shapes: states [num_states], device.
void launch_split_rows(CompressedView b, const RowSplits& splits, std::uint64_t* states, std::uint64_t num_states,
                       cudaStream_t stream);

/// B segment: the blocks [first, end) of a B row that fall into some columns.
struct BSegment {
  std::uint32_t first;
  std::uint32_t end;
};

/// The blocks of a row of B with columns from `first` to `last`. Both ends are searched at once: each step waits for
/// memory.
__device__ inline BSegment find_segment(const CompressedView& b, std::uint32_t b_row, std::uint32_t first,
                                        std::uint32_t last) {
  std::uint32_t from = b.offsets[b_row];
  std::uint32_t from_end = b.offsets[b_row + 1];
  std::uint32_t to = from;
  std::uint32_t to_end = from_end;
#pragma unroll 1
  while (from < from_end || to < to_end) {
    const std::uint32_t from_middle = (from + from_end) / 2;
    const std::uint32_t to_middle = (to + to_end) / 2;
    const std::uint32_t at_from = from < from_end ? __ldg(b.columns + from_middle) : 0;
    const std::uint32_t at_to = to < to_end ? __ldg(b.columns + to_middle) : 0;
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

/// The blocks of a row of B in a chunk of columns. Values: splits.offsets are written.
__device__ inline BSegment segment_of_chunk(const RowSplits& splits, std::uint32_t b_row, std::uint32_t chunk) {
  const std::uint32_t* const at = splits.offsets + std::uint64_t{b_row} * (splits.num_chunks + 1) + chunk;
  return {at[0], at[1]};
}

/// The columns of a panel between which the pairs of each of its rows lie, if wanted; *max_span is raised to the most
/// columns of a row, if wanted. Shapes: spans [panel.num_rows], max_span [1], device.
void launch_find_spans(const RowProduct& product, const CBlocksView& panel, ColumnSpan* spans, std::uint32_t* max_span,
                       cudaStream_t stream);

/// First of the heads {block row, block column} [low, high) whose word `at` (0: row, 1: column) is not below `wanted`.
__device__ inline std::uint32_t find_head(const std::uint32_t* heads, std::uint32_t low, std::uint32_t high,
                                          std::uint32_t at, std::uint32_t wanted) {
  return partition_point(low, high, [=](std::uint32_t x) { return heads[2 * std::size_t{x} + at] < wanted; });
}

}  // namespace spmm::kernels
