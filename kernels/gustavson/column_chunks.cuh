// Column chunks of block rows, the B segments that fall into them, and how the warps of a CTA share these.
#pragma once

#include "kernels/grid.cuh"
#include "kernels/gustavson/segment_products.cuh"
#include "kernels/views.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// Column chunks of one launch, in result order: a CTA accumulates one.
struct ColumnChunks {
  static constexpr std::uint32_t kThreads = 512;  // of a CTA
  static constexpr std::uint32_t kWarps = kThreads / 32;

  std::uint32_t blocks_per_chunk;
  std::uint32_t per_row;
  std::uint32_t num_ctas;
  const std::uint32_t* split_offsets;  // [rows of B, per_row + 1], device: first block of each row in each chunk, and
                                       // the end; null = every CTA searches for itself

  /// First column of a chunk.
  [[nodiscard]] __device__ std::uint32_t first_column(const CBlocksView& c_blocks, std::uint32_t chunk) const {
    return c_blocks.column_begin + chunk * blocks_per_chunk;
  }
};

/// Split offset: first block of a row of B in columns from `column` on.
__device__ inline std::uint32_t split_offset(const CompressedView& b, std::uint32_t b_row, std::uint32_t column) {
  return static_cast<std::uint32_t>(lower_bound(b.columns, b.offsets[b_row], b.offsets[b_row + 1], column));
}

/// The blocks of a row of B that fall into a chunk of num_c_blocks columns; b_row may be kNoRow.
__device__ inline BSegment find_segment(const CompressedView& b, std::uint32_t b_row, const CBlocksView& c_blocks,
                                        const ColumnChunks& chunks, std::uint32_t chunk, std::uint32_t num_c_blocks) {
  if (b_row == kNoRow) return {0, 0};
  if (chunks.split_offsets != nullptr) {
    const std::uint32_t* const offsets = chunks.split_offsets + std::uint64_t{b_row} * (chunks.per_row + 1) + chunk;
    return {offsets[0], offsets[1]};
  }
  const std::uint32_t column = chunks.first_column(c_blocks, chunk);
  return {split_offset(b, b_row, column), split_offset(b, b_row, column + num_c_blocks)};
}

/// What a warp takes of a round: the B segments from x on, without the first `skipped` pairs, `pairs` at most; or,
/// if drawn, whichever segment is next.
struct Share {
  bool drawn;
  std::uint32_t x;
  std::uint32_t skipped;
  std::uint32_t pairs;
};

/// Draws a number, each warp its own; it is known on the first lane.
/// Threads: one whole warp.
__device__ inline std::uint32_t draw_number(std::uint32_t* next) {
  std::uint32_t number = 0;
  if (threadIdx.x % 32 == 0) {
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(next));
    // An addition would have the compiler look for other lanes that add, 15 instructions; numbers stay far below the
    // bound.
    asm volatile("atom.shared.inc.u32 %0, [%1], 0x7FFFFFFF;" : "=r"(number) : "r"(at) : "memory");
  }
  return number;
}

/// The B segments of a round, that is of up to kThreads blocks of A, in shared memory.
struct Round {
  static constexpr std::uint32_t kThreads = ColumnChunks::kThreads;
  static constexpr std::uint32_t kWarps = ColumnChunks::kWarps;

  BSegment segments[kThreads];   // of one block of A each
  std::uint32_t ends[kThreads];  // pairs up to the end of each segment
  std::uint32_t of_warp[kWarps];
  std::uint32_t next;  // segment to be drawn

  /// Lists the calling thread's segment; at the end all segments are listed. Warps draw them, or take, if few blocks
  /// of A are multiplied with many of B, the same number of pairs each.
  /// Shapes: count = segments of the round, elements = of a block.
  /// Threads: all of the CTA.
  __device__ Share list(BSegment segment, std::uint32_t count, std::uint32_t elements) {
    constexpr std::uint32_t kFewSegments = 4 * kWarps;
    constexpr std::uint32_t kLongElements = 1024;  // of a segment's blocks: equal shares cost two barriers more
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t length = segment.end - segment.first;
    segments[threadIdx.x] = segment;
    if (threadIdx.x == 0) next = 0;
    const bool is_long = count < kFewSegments && length * elements >= kLongElements;
    const int any_long = __syncthreads_or(is_long);  // segments are listed; all warps decide the same
    if (any_long == 0) return {.drawn = true, .x = 0, .skipped = 0, .pairs = 0};
    const std::uint32_t through = inclusive_warp_sum(length);
    if (lane == 31) of_warp[warp] = through;
    __syncthreads();  // pairs of all warps are known
    const std::uint32_t warp_end = inclusive_warp_sum(lane < kWarps ? of_warp[lane] : 0);
    const std::uint32_t total = __shfl_sync(~0u, warp_end, 31);
    const std::uint32_t before = __shfl_sync(~0u, warp_end, warp == 0 ? 0 : warp - 1);
    ends[threadIdx.x] = (warp == 0 ? 0 : before) + through;
    __syncthreads();                                    // ends are complete
    const std::uint32_t first = total * warp / kWarps;  // kThreads * kMaxCBlocks * kWarps fit 32 bits
    const std::uint32_t group = __ffs(__ballot_sync(~0u, warp_end > first)) - 1;  // of 32 segments
    const std::uint32_t x = group * 32 + __ffs(__ballot_sync(~0u, ends[group * 32 + lane] > first)) - 1;
    return {.drawn = false,
            .x = x,
            .skipped = first - (ends[x] - (segments[x].end - segments[x].first)),
            .pairs = total * (warp + 1) / kWarps - first};
  }

  /// Draws a segment; the number is known on the first lane.
  /// Threads: one whole warp.
  __device__ std::uint32_t draw() { return draw_number(&next); }
};

}  // namespace spmm::kernels
