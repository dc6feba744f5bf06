// Exact pair counts: how many blocks of B each block of A is multiplied with; what the host waits for.
#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: kLanes threads per row of A, of which there may be fewer.
// Work: lane -> block of A, whose row of B is looked up by two borders; the lanes of a row add up their pairs.
// Memory: contiguous columns and row indices, scattered borders, which stay in L1.
template <std::uint32_t kLanes>
__global__ void __launch_bounds__(kItemThreads) match_rows(PairCount match) {
  if (!match.a_found->is_sorted() || !match.b_found->is_sorted()) return;
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
// Work: the first row of each run, and the last of all, write an offset; a CTA reduces the largest number of pairs and
//       of blocks of its rows, and the last columns of B's rows.
// Memory: contiguous or, from offsets of blocks, scattered; a scattered word per row of B.
__global__ void __launch_bounds__(kItemThreads) count_runs(PairCount runs) {
  if (runs.a_found != nullptr && !(runs.a_found->is_sorted() && runs.b_found->is_sorted())) return;
  const CompressedView& a = runs.a;
  const std::uint32_t a_rows = runs.a_found == nullptr ? a.num_rows : runs.a_found->num_rows;
  const std::uint32_t b_rows = runs.b_found == nullptr ? runs.b.num_rows : runs.b_found->num_rows;
  const std::uint32_t stride = run_stride(a_rows, runs.max_runs);
  unsigned long long most_pairs = 0;
  unsigned long long most_blocks = 0;
  unsigned long long most_columns = 0;
  const auto pairs_before = [&](std::uint64_t row) {
    return runs.row_offsets != nullptr ? runs.row_offsets[row] : runs.pair_offsets[a.offsets[row]];
  };
  for_each_item(max(a_rows, b_rows), [&](std::uint64_t row) {
    if (row < a_rows) {
      const std::uint64_t begin = pairs_before(row);
      const std::uint64_t end = pairs_before(row + 1);
      if (row % stride == 0) runs.run_offsets[row / stride] = begin;
      if (row + 1 == a_rows) runs.run_offsets[row / stride + 1] = end;
      most_pairs = max(most_pairs, static_cast<unsigned long long>(end - begin));
      most_blocks = max(most_blocks, a.offsets[row + 1] - a.offsets[row] + 0ull);
    }
    if (row < b_rows) most_columns = max(most_columns, runs.b.columns[runs.b.offsets[row + 1] - 1] + 1ull);
  });
  raise_max(&runs.totals->max_row_pairs, most_pairs);
  raise_max(&runs.totals->max_row_blocks, most_blocks);
  raise_max(&runs.totals->columns_end, most_columns);
}

// Grid: one thread per word. Memory: contiguous; whole sectors go over the link together.
__global__ void copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to) {
  for_each_item(count, [=](std::uint64_t x) { to[x] = from[x]; });
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

void launch_count_runs(const PairCount& runs, cudaStream_t stream) {
  count_runs<<<item_grid(std::max(runs.a.num_rows, runs.b.num_rows)), kItemThreads, 0, stream>>>(runs);
  check_launch("count_runs");
}

std::size_t match_workspace_bytes(std::uint32_t most_rows) {
  return scan_workspace_bytes<PairsOfRow, std::uint64_t>(std::uint64_t{most_rows} + 1);
}

void launch_match_rows(const PairCount& match, cudaStream_t stream) {
  const std::uint32_t most_rows = match.a.num_rows;
  const std::uint32_t lanes = lanes_per_row(match.num_a_blocks, most_rows);
  const auto kernel = lanes == 32 ? match_rows<32> : match_rows<kFewLanes>;
  kernel<<<item_grid(std::uint64_t{most_rows} * lanes), kItemThreads, 0, stream>>>(match);
  check_launch("match_rows");
  const PairsOfRow pairs{match.row_pairs, match.a_found};
  launch_scan(pairs, std::uint64_t{most_rows} + 1, match.row_offsets, match.work, stream, "row offsets");
  launch_count_runs(match, stream);
}

void launch_copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to, cudaStream_t stream) {
  if (count == 0) return;
  copy_to_host<<<item_grid(count), kItemThreads, 0, stream>>>(from, count, to);
  check_launch("copy_to_host");
}

}  // namespace spmm::kernels
