// What some rows of C look like, before a kernel is picked: pairs, C blocks, and the columns between which these lie.
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kWarps = kThreads / 32;
constexpr std::uint32_t kWords = 8192;  // of a bitmap: 32 KB
constexpr std::uint32_t kColumns = kWords * 32;

/// What a CTA finds of its row.
struct SampledRow {
  std::uint32_t bits[kWords];
  std::uint32_t first;  // column
  std::uint32_t last;
  unsigned long long pairs;
  std::uint32_t c_blocks;
};

/// Row index number `x` of the sample: multiples of the golden ratio, so that rows of a regular pattern are drawn from
/// all of its places.
__device__ std::uint32_t sampled_row(std::uint32_t x, std::uint32_t num_rows) {
  return static_cast<std::uint32_t>(std::uint64_t{(2 * x + 1) * 0x9E37'79B9u} * num_rows >> 32);
}

/// Calls of_segment(first, end) for the blocks of B's rows that meet the row of A, a warp for each row of B.
template <class OfSegment>
__device__ void for_each_b_row(const RowSampleView& view, std::uint32_t row, const OfSegment& of_segment) {
  for (std::uint32_t p = view.a.offsets[row] + threadIdx.x / 32; p < view.a.offsets[row + 1]; p += kWarps) {
    const std::uint32_t b_row = view.b_row_index[p];
    if (b_row != kNoRow) of_segment(view.b.offsets[b_row], view.b.offsets[b_row + 1]);
  }
}

// Grid: one CTA per sampled row.
// Work: the ends of B's rows give the span; columns are marked in a bitmap and counted, kColumns of the span at a time.
// Memory: B's columns are read contiguously, once for each piece of the span.
__global__ void __launch_bounds__(kThreads) sample_rows(RowSampleView view, RowSampleCounts* counts) {
  __shared__ SampledRow found;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t row = sampled_row(blockIdx.x, view.a.num_rows);
  if (threadIdx.x == 0) {
    found.first = kNoRow;
    found.last = 0;
    found.pairs = 0;
    found.c_blocks = 0;
  }
  __syncthreads();  // the row's counts are clear
  for_each_b_row(view, row, [&](std::uint32_t first, std::uint32_t end) {
    if (lane != 0) return;
    atomicMin(&found.first, view.b.columns[first]);  // other warps have other rows of B
    atomicMax(&found.last, view.b.columns[end - 1]);
    atomicAdd(&found.pairs, static_cast<unsigned long long>(end - first));
  });
  __syncthreads();  // the span is known
  if (found.pairs == 0) return;
  const std::uint32_t span_first = found.first;
  const std::uint32_t span_last = found.last;
  for (std::uint64_t base = span_first; base <= span_last; base += kColumns) {
    const auto words = static_cast<std::uint32_t>(min(std::uint64_t{kWords}, (span_last - base) / 32 + 1));
    for (std::uint32_t w = threadIdx.x; w < words; w += kThreads) found.bits[w] = 0;
    __syncthreads();  // the bitmap is clear
    for_each_b_row(view, row, [&](std::uint32_t first, std::uint32_t end) {
      for (std::uint32_t q = first + lane; q < end; q += 32) {
        const std::uint64_t column = view.b.columns[q];
        if (column < base || column >= base + kColumns) continue;
        const auto bit = static_cast<std::uint32_t>(column - base);
        atomicOr(&found.bits[bit / 32], 1u << bit % 32);  // other warps mark the same words
      }
    });
    __syncthreads();  // the bitmap is complete
    std::uint32_t marked = 0;
    for (std::uint32_t w = threadIdx.x; w < words; w += kThreads) marked += __popc(found.bits[w]);
    marked = warp_total(marked);
    if (lane == 0) atomicAdd(&found.c_blocks, marked);  // one of each warp
    __syncthreads();                                    // the bitmap has been read; c_blocks is complete
  }
  if (threadIdx.x != 0) return;
  atomicAdd(&counts->pairs, found.pairs);  // one of each CTA
  atomicAdd(&counts->c_blocks, static_cast<unsigned long long>(found.c_blocks));
  atomicAdd(&counts->columns, span_last - span_first + 1ull);
}

}  // namespace

void launch_sample_rows(const RowSampleView& view, RowSampleCounts* counts, cudaStream_t stream) {
  check(cudaMemsetAsync(counts, 0, sizeof *counts, stream), "clear row sample");
  if (view.a.num_rows == 0) return;
  sample_rows<<<kSampledRows, kThreads, 0, stream>>>(view, counts);
  check_launch("sample_rows");
}

}  // namespace spmm::kernels
