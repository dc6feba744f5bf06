// Exact pair counts: how many blocks of B each block of A is multiplied with.
#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// Runs of `stride` rows.
std::uint64_t num_runs(std::uint32_t num_rows, std::uint32_t stride) {
  return (std::uint64_t{num_rows} + stride - 1) / stride;
}

/// Raises *most to the largest value of a warp.
__device__ inline void raise_most(unsigned long long value, unsigned long long* most) {
#pragma unroll
  for (std::uint32_t step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
  // Across CTAs; it only grows, so a stale read costs one atomic.
  if (threadIdx.x % 32 == 0 && value > *most) atomicMax(most, value);
}

// Grid: one thread per row of A.
// Work: the first row of each run, and the last of all, write an offset; a warp reduces the largest number of pairs and
//       of blocks of its rows.
// Memory: scattered reads of the offsets, contiguous writes.
__global__ void row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                                 std::uint64_t count, std::uint64_t* row_offsets, MatchTotals* totals) {
  unsigned long long most_pairs = 0;
  unsigned long long most_blocks = 0;
  for_each_item(a.num_rows, [&](std::uint64_t row) {
    const std::uint64_t begin = pair_offsets[a.offsets[row]];
    const std::uint64_t end = pair_offsets[a.offsets[row + 1]];
    if (row % stride == 0) row_offsets[row / stride] = begin;
    if (row + 1 == a.num_rows) row_offsets[count] = end;
    most_pairs = max(most_pairs, static_cast<unsigned long long>(end - begin));
    most_blocks = max(most_blocks, blocks_of_row(a, row));
  });
  raise_most(most_pairs, &totals->max_row_pairs);
  raise_most(most_blocks, &totals->max_row_blocks);
}

// Grid: kLanes threads per row of A, of which there may be fewer.
// Work: lane -> block of A, whose row of B is looked up by two borders; the lanes of a row add up their pairs.
// Memory: contiguous columns and row indices, scattered borders, which stay in L1.
template <std::uint32_t kLanes>
__global__ void __launch_bounds__(kItemThreads) match_rows(RowMatch match) {
  if (!is_sound(match)) return;
  const CompressedView& a = match.a;
  const std::uint32_t num_rows = match.a_found->num_rows;
  constexpr std::uint32_t kRows = 32 / kLanes;  // of a warp
  const std::uint32_t lane = threadIdx.x % kLanes;
  const std::uint64_t first = match.b_borders[0];
  for (std::uint32_t of_warp = this_warp() * kRows; of_warp < num_rows; of_warp += gridDim.x * kItemWarps * kRows) {
    const std::uint32_t row = of_warp + threadIdx.x % 32 / kLanes;
    const std::uint32_t end = row < num_rows ? a.offsets[row + 1] : 0;
    std::uint64_t pairs = 0;
#pragma unroll 4
    for (std::uint32_t p = row < num_rows ? a.offsets[row] + lane : 0; p < end; p += kLanes) {
      const std::uint64_t* const border = match.b_borders + a.columns[p];
      const auto blocks = static_cast<std::uint32_t>(border[1] - border[0]);
      match.b_row_index[p] = blocks == 0 ? kNoRow : static_cast<std::uint32_t>((border[0] - first) >> 32);
      pairs += blocks;
    }
#pragma unroll
    for (std::uint32_t step = kLanes / 2; step > 0; step /= 2) pairs += __shfl_xor_sync(~0u, pairs, step);
    if (lane == 0 && row < num_rows) match.row_pairs[row] = pairs;
  }
}

// Grid: one thread per row of A, or of B if that has more.
// Work: the first row of each run, and the last of all, write an offset; a warp reduces the largest number of pairs and
//       of blocks of its rows, and the last columns of B's rows.
// Memory: contiguous, but for a word per row of B.
__global__ void __launch_bounds__(kItemThreads) run_row_pairs(RowMatch match) {
  if (!is_sound(match)) return;
  const std::uint32_t a_rows = match.a_found->num_rows;
  const std::uint32_t b_rows = match.b_found->num_rows;
  const std::uint32_t stride = run_stride(a_rows, match.max_runs);
  unsigned long long most_pairs = 0;
  unsigned long long most_blocks = 0;
  unsigned long long most_columns = 0;
  for_each_item(max(a_rows, b_rows), [&](std::uint64_t row) {
    if (row < a_rows) {
      if (row % stride == 0) match.run_offsets[row / stride] = match.row_offsets[row];
      if (row + 1 == a_rows) match.run_offsets[(a_rows - 1) / stride + 1] = match.row_offsets[a_rows];
      most_pairs = max(most_pairs, static_cast<unsigned long long>(match.row_pairs[row]));
      most_blocks = max(most_blocks, blocks_of_row(match.a, row));
    }
    if (row < b_rows) most_columns = max(most_columns, match.b.columns[match.b.offsets[row + 1] - 1] + 1ull);
  });
  raise_most(most_pairs, &match.totals->max_row_pairs);
  raise_most(most_blocks, &match.totals->max_row_blocks);
  raise_most(most_columns, &match.totals->columns_end);
}

}  // namespace

std::size_t count_workspace_bytes(std::uint64_t count) {
  return scan_workspace_bytes<PairsOfBlock, std::uint64_t>(count + 1);
}

void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream) {
  const PairsOfBlock pairs{b_row_index, b_rows.offsets, count};
  launch_scan(pairs, count + 1, pair_offsets, work, stream, "pair offsets");
}

void launch_row_pair_offsets(CompressedView a, const std::uint64_t* pair_offsets, std::uint32_t stride,
                             std::uint64_t* row_offsets, MatchTotals* totals, cudaStream_t stream) {
  check(cudaMemsetAsync(totals, 0, sizeof *totals, stream), "totals of rows");
  row_pair_offsets<<<item_grid(a.num_rows), kItemThreads, 0, stream>>>(
      a, pair_offsets, stride, num_runs(a.num_rows, stride), row_offsets, totals);
  check_launch("row_pair_offsets");
}

std::size_t match_workspace_bytes(std::uint32_t most_rows, std::uint32_t max_runs) {
  return most_rows <= max_runs ? 0 : scan_workspace_bytes<PairsOfRow, std::uint64_t>(std::uint64_t{most_rows} + 1);
}

void launch_match_rows(const RowMatch& match, cudaStream_t stream) {
  const std::uint32_t most_rows = match.a.num_rows;
  const std::uint32_t lanes = lanes_per_row(match.num_a_blocks, most_rows);
  const auto kernel = lanes == 32 ? match_rows<32> : match_rows<kFewLanes>;
  kernel<<<item_grid(std::uint64_t{most_rows} * lanes), kItemThreads, 0, stream>>>(match);
  check_launch("match_rows");
  if (most_rows <= match.max_runs) {
    launch_total_row_pairs(match, stream);
    return;
  }
  const PairsOfRow pairs{match.row_pairs, match.a_found};
  launch_scan(pairs, std::uint64_t{most_rows} + 1, match.row_offsets, match.work, stream, "row offsets");
  run_row_pairs<<<item_grid(std::max(most_rows, match.b.num_rows)), kItemThreads, 0, stream>>>(match);
  check_launch("run_row_pairs");
}

}  // namespace spmm::kernels
