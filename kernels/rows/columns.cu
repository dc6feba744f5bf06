// The columns of C blocks that exist: a bitmap of a piece of a row in shared memory, and its bits as a sorted list.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/resident.hpp"
#include "kernels/rows/rounds.cuh"
#include "kernels/rows/windows.cuh"
#include "kernels/small/segments.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kMaxWarps = 16;

/// Shared memory in addition to the bitmap.
struct ColumnLists {
  SmallSegment segments[kMaxWarps * 32];
  SegmentCounts of_warp[kMaxWarps];
  std::uint32_t counts[kMaxWarps];  // columns of each warp's words
  std::uint32_t pairs;
  std::uint32_t ticket;
  std::uint32_t first;
};

/// The blocks of row b_row of B that fall into a piece; b_row may be kNoRow.
__device__ inline SmallSegment segment_of_piece(const CompressedView& b, std::uint32_t b_row, const RowPiece& piece) {
  if (b_row == kNoRow) return {};
  BSegment segment{b.offsets[b_row], b.offsets[b_row + 1]};
  const std::uint32_t last = piece.first + (piece.count - 1);
  if (b.columns[segment.first] < piece.first || b.columns[segment.end - 1] > last) {
    segment = find_segment(b, b_row, piece.first, last);
  }
  return {.first = segment.first, .end = segment.end, .a = 0, .before = 0};
}

/// Sets the bits of all columns of a piece and adds up its pairs.
/// Threads: all of the CTA, once the bits are clear.
__device__ inline void set_bits(const RowProduct& product, const RowPiece& piece, std::uint32_t* bits,
                                ColumnLists& lists) {
  const CompressedView& a = product.a.index;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t num_warps = blockDim.x / 32;
  const std::uint32_t begin = a.offsets[piece.row];
  const std::uint32_t of_a = a.offsets[piece.row + 1] - begin;
  std::uint32_t pairs = 0;
#pragma unroll 1
  for (std::uint32_t first = 0; first < of_a; first += blockDim.x) {
    SmallSegment segment{};
    if (threadIdx.x < of_a - first) {
      segment = segment_of_piece(product.b.index, product.b_row_index[begin + first + threadIdx.x], piece);
    }
    pairs += segment.end - segment.first;
    const SmallList list = list_of_cta(segment, lists.segments, lists.of_warp);
    const std::uint64_t tiles = list.num_tiles();
    walk_tiles<1>(
        list, static_cast<std::uint32_t>(tiles * warp / num_warps),
        static_cast<std::uint32_t>(tiles * (warp + 1) / num_warps), product.b, false,
        [&](std::uint32_t column, std::uint32_t, const SmallBlock<1>&) { set_bit(bits, column - piece.first); });
  }
  const std::uint32_t of_warp = inclusive_warp_sum(pairs);
  if (threadIdx.x % 32 == 31 && of_warp != 0) atomicAdd(&lists.pairs, of_warp);  // warps share the sum
}

/// C blocks of a window: fewer if each has many pairs, and as many in each window of a piece.
__device__ inline std::uint32_t window_of_piece(std::uint32_t count, std::uint32_t pairs, RankShape shape) {
  if (count == 0) return 1;
  const std::uint64_t wanted = kRankWindowPairs * count / max(pairs, 1u);
  const std::uint32_t most = max(kMinRankSlots, static_cast<std::uint32_t>(min(std::uint64_t{shape.slots}, wanted)));
  const std::uint32_t windows = (count - 1) / most + 1;
  return (count - 1) / windows + 1;
}

/// Writes the columns of a piece where they have their place, and clears the bits.
/// Threads: all of the CTA, once all bits are set.
__device__ inline void list_columns(const RowPiece& piece, RankShape shape, std::uint32_t* bits, ColumnLists& lists,
                                    const RankScratch& scratch) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t num_warps = blockDim.x / 32;
  const std::uint32_t num_words = (piece.count + 31) / 32;
  const std::uint32_t begin = num_words * warp / num_warps;
  const std::uint32_t end = num_words * (warp + 1) / num_warps;
  std::uint32_t own = 0;
#pragma unroll 2
  for (std::uint32_t w = begin + lane; w < end; w += 32) own += __popc(bits[w]);
  const CtaSum sum = cta_sum(own, lists.counts, num_warps);
  if (threadIdx.x == 0) {
    const std::uint64_t first = atomicAdd(scratch.counters + kColumnsFound, std::uint64_t{sum.all});  // in any order
    lists.first = static_cast<std::uint32_t>(first);
    scratch.pieces[lists.ticket] = {.row = piece.row,
                                    .first = lists.first,
                                    .count = sum.all,
                                    .window = window_of_piece(sum.all, lists.pairs, shape)};
    lists.pairs = 0;
  }
  __syncthreads();  // the place is known
  scan_by_warp(
      begin, end, lists.first + __shfl_sync(~0u, sum.before, 0),
      [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(bits[w])); },
      [&](std::uint32_t w, std::uint32_t place) {
        std::uint32_t* to = scratch.columns + place;
        for (std::uint32_t left = bits[w]; left != 0; left &= left - 1) {
          *to++ = piece.first + w * 32 + (__ffs(static_cast<int>(left)) - 1);
        }
        bits[w] = 0;
      });
}

// Grid: as many CTAs as fit the device; each takes one piece after the other.
// Work: a lane per pair sets the bit of its column; then each warp writes the columns of some words of the bitmap.
// Memory: neighbouring lanes read neighbouring columns of B's row; the bitmap is in shared memory.
__global__ void __launch_bounds__(kMaxWarps * 32)
    find_columns(RowProduct product, CBlocksView c_blocks, RankScratch scratch, RankShape shape,
                 std::uint32_t num_words) {
  extern __shared__ std::uint32_t bits[];  // [num_words]
  __shared__ ColumnLists lists;
  const std::uint32_t num_pieces = scratch.piece_offsets[c_blocks.num_rows];
  for (std::uint32_t w = threadIdx.x; w < num_words; w += blockDim.x) bits[w] = 0;
  if (threadIdx.x == 0) lists.pairs = 0;
  while (true) {
    if (threadIdx.x == 0)
      lists.ticket =
          static_cast<std::uint32_t>(atomicAdd(scratch.counters + kPieceTicket, 1ull));  // each CTA a piece of its own
    __syncthreads();  // the ticket is drawn, bits are clear
    const std::uint32_t ticket = lists.ticket;
    if (ticket >= num_pieces) return;
    const RowPiece piece = scratch.pieces[ticket];
    if (piece.count != 0) {
      set_bits(product, piece, bits, lists);
      __syncthreads();  // all bits are set
      list_columns(piece, shape, bits, lists, scratch);
    }
    __syncthreads();  // ticket and lists may be overwritten
  }
}

}  // namespace

void launch_rank_columns(const RowProduct& product, const CBlocksView& c_blocks, const RankScratch& scratch,
                         RankShape shape, cudaStream_t stream) {
  const std::uint32_t span = std::min(scratch.max_span, c_blocks.num_columns + 31);
  const std::uint32_t num_words = (span + 31) / 32 + 1;
  const std::uint32_t shared_bytes = num_words * 4;
  constexpr std::uint32_t kFewBytes = 8u << 10;    // many CTAs fit: small ones, if rows are short
  constexpr std::uint32_t kManyBytes = 40u << 10;  // fewer CTAs fit: larger ones, as for long rows with many columns
  const bool has_short_rows = scratch.mean_row_pairs <= kRankShortRowPairs;
  unsigned threads = 256;
  if (shared_bytes <= kFewBytes && has_short_rows) threads = 64;
  if (shared_bytes > kManyBytes || (shared_bytes > kFewBytes && !has_short_rows)) threads = kMaxWarps * 32;
  const unsigned grid = resident_ctas(find_columns, threads, shared_bytes);
  find_columns<<<grid, threads, shared_bytes, stream>>>(product, c_blocks, scratch, shape, num_words);
  check_launch("find_columns");
}

}  // namespace spmm::kernels
