// Exact pair counts: how many blocks of B each block of A is multiplied with; what the host waits for.
#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per row of A, or of B if that has more.
// Work: the first row of each run, and the last of all, write an offset; a CTA reduces the largest number of pairs and
//       of blocks of its rows, and the last columns of B's rows.
// Memory: offsets of blocks are contiguous, of pairs scattered; a scattered word per row of B.
__global__ void __launch_bounds__(kItemThreads) count_runs(PairCount runs) {
  if (runs.a_found != nullptr && !(runs.a_found->is_sorted() && runs.b_found->is_sorted())) return;
  const CompressedView& a = runs.a;
  const std::uint32_t a_rows = runs.a_found == nullptr ? a.num_rows : runs.a_found->num_rows;
  const std::uint32_t b_rows = runs.b_found == nullptr ? runs.b.num_rows : runs.b_found->num_rows;
  const std::uint32_t stride = run_stride(a_rows, runs.max_runs);
  unsigned long long most_pairs = 0;
  unsigned long long most_blocks = 0;
  unsigned long long most_columns = 0;
  for_each_item(max(a_rows, b_rows), [&](std::uint64_t row) {
    if (row < a_rows) {
      const std::uint64_t begin = runs.pair_offsets[a.offsets[row]];
      const std::uint64_t end = runs.pair_offsets[a.offsets[row + 1]];
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

}  // namespace

std::size_t count_workspace_bytes(std::uint64_t count) {
  return Scan<PairsOfBlock>::workspace_bytes(count + 1);
}

void launch_pair_offsets(const std::uint32_t* b_row_index, std::uint64_t count, CompressedView b_rows,
                         std::uint64_t* pair_offsets, Workspace work, cudaStream_t stream) {
  Scan<PairsOfBlock>::launch({b_row_index, b_rows.offsets, count}, count + 1, pair_offsets, work, stream,
                             "pair offsets");
}

void launch_count_runs(const PairCount& runs, cudaStream_t stream) {
  count_runs<<<item_grid(std::max(runs.a.num_rows, runs.b.num_rows)), kItemThreads, 0, stream>>>(runs);
  check_launch("count_runs");
}

void launch_match_blocks(const PairCount& match, const std::uint64_t* b_borders, std::uint32_t* b_row_index,
                         std::uint64_t num_a_blocks, Workspace work, cudaStream_t stream) {
  // A block reads two scattered borders, which stay in cache.
  launch_items(num_a_blocks, stream, "match_blocks", [=] __device__(std::uint64_t p) {
    b_row_index[p] = kNoRow;
    if (!match.a_found->is_sorted() || !match.b_found->is_sorted()) return;
    const std::uint64_t* const border = b_borders + match.a.columns[p];
    if (border[0] != border[1]) b_row_index[p] = static_cast<std::uint32_t>((border[0] - b_borders[0]) >> 32);
  });
  launch_pair_offsets(b_row_index, num_a_blocks, match.b, match.pair_offsets, work, stream);
  launch_count_runs(match, stream);
}

void launch_copy_to_host(const std::uint32_t* from, std::uint32_t count, std::uint32_t* to, cudaStream_t stream) {
  launch_items(count, stream, "copy_to_host", [=] __device__(std::uint64_t x) { to[x] = from[x]; });
}

}  // namespace spmm::kernels
