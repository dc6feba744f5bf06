// Block-CSR arrays of a caller to sort keys, with their checks, and heads of records to index arrays.
#include "kernels/blocks/arrays.hpp"

#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/row_segments.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

/// Both matrices in an array, of which blockIdx.y picks one: picked among parameters, each thread would copy both to
/// local memory (m = 1, 10^6 blocks, H200: 0.108 ms instead of 0.022).
struct BothArrays {
  ArraysView matrix[2];
};

// Grid: kLanes threads per block row; a row of CTAs per matrix.
// Work: they check the ends of their row, then make a key of each block column that is in range, and compare it with
//       the one before.
// Memory: contiguous within a row. Indices of a row whose ends are wrong are not read.
template <class Index, std::uint32_t kLanes>
__global__ void __launch_bounds__(kItemThreads) read_arrays(BothArrays both) {
  const ArraysView& arrays = both.matrix[blockIdx.y];
  ArrayFindings* const findings = arrays.findings;
  const auto* const indptr = static_cast<const Index*>(arrays.indptr);
  const auto* const indices = static_cast<const Index*>(arrays.indices);
  const std::uint32_t lane = threadIdx.x % kLanes;
  for_each_item(arrays.num_rows * kLanes, [&](std::uint64_t item) {
    const std::uint64_t row = item / kLanes;
    const std::int64_t begin = indptr[row];
    const std::int64_t end = indptr[row + 1];
    const auto count = static_cast<std::int64_t>(arrays.num_blocks);
    const bool is_sound = begin >= 0 && begin <= end && end <= count && (row != 0 || begin == 0) &&
                          (row + 1 != arrays.num_rows || end == count);
    if (!is_sound) {
      if (lane == 0) atomicMin(&findings->bad_row, static_cast<unsigned long long>(row));  // across CTAs
      return;
    }
    for (std::int64_t p = begin + lane; p < end; p += kLanes) {
      const std::int64_t column = indices[p];
      if (column < 0 || column >= static_cast<std::int64_t>(arrays.num_columns)) {
        atomicMin(&findings->bad_index, static_cast<unsigned long long>(p));  // across CTAs
      } else {
        arrays.keys[p] = row << arrays.key_bits | static_cast<std::uint64_t>(column);
        if (p > begin && indices[p - 1] >= column) findings->is_unsorted = 1;  // all that write store 1: no atomic
      }
    }
  });
}

constexpr std::uint64_t kValuesPerThread = 32;

// Grid: one thread per kValuesPerThread values, eight at a time, which lie a grid apart.
// Work: the larger half of each word; a CTA reduces, and raises the answer.
// Memory: contiguous reads of 128 bits; values before the first and behind the last of them are read alone.
__global__ void __launch_bounds__(kItemThreads)
    max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* most) {
  const std::uint64_t to_border = -reinterpret_cast<std::uintptr_t>(values) % sizeof(uint4) / sizeof(std::uint16_t);
  const std::uint64_t lead = min(to_border, count);
  const auto* const eights = reinterpret_cast<const uint4*>(values + lead);
  const std::uint64_t num_eights = (count - lead) / 8;
  std::uint32_t two = 0;
  for_each_item(num_eights, [&](std::uint64_t x) {
    const uint4 eight = eights[x];
    two = __vmaxu2(two, __vmaxu2(__vmaxu2(eight.x, eight.y), __vmaxu2(eight.z, eight.w)));
  });
  std::uint32_t own = max(two & 0xFFFFu, two >> 16);
  const std::uint64_t behind = lead + num_eights * 8 + threadIdx.x;
  if (blockIdx.x == 0 && threadIdx.x < lead) own = max(own, std::uint32_t{values[threadIdx.x]});
  if (blockIdx.x == 0 && behind < count) own = max(own, std::uint32_t{values[behind]});
  raise_max(most, own);
}

/// Columns of blocks: `width` of them, one after the other, with `height` elements, `stride` apart.
struct Columns {
  std::uint32_t width;
  std::uint32_t height;
  std::uint32_t stride;
};

// Grid: one thread per column of a block; a row of CTAs per matrix.
// Work: reads down the column to the first non-zero element, in most data the first one.
// Memory: neighbouring threads read neighbouring elements; about one sector of 32 bytes of each block is touched.
__global__ void __launch_bounds__(kItemThreads) find_zeros(BothArrays both, std::uint32_t m) {
  const ArraysView& blocks = both.matrix[blockIdx.y];
  const Columns columns = blockIdx.y == 0 ? Columns{.width = m, .height = m, .stride = m}
                                          : Columns{.width = 1, .height = m * m, .stride = 1};
  if (blocks.values == nullptr) return;
  for_each_item(blocks.num_blocks * columns.width, [&](std::uint64_t x) {
    const std::uint64_t block = x / columns.width;
    const std::uint16_t* const column =
        blocks.values + block * columns.height * columns.width + (x - block * columns.width);
    std::uint32_t row = 0;
    while (row < columns.height && column[row * columns.stride] == 0) ++row;
    if (row == columns.height) blocks.findings->has_zeros = 1;  // all that write store 1: no atomic is needed
  });
}

/// Columns of blocks per CTA, at most; one block at least: four per thread.
constexpr std::uint32_t kColumnsPerCta = 1024;

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per N elements of a row of the result, 16 bytes at most, which are a column before, neighbours by
//       neighbouring threads. M: 0 = at run time, N = 1. numbers: null = blocks stay in their order.
// Memory: writes are contiguous; strided reads of whole blocks, which stay in cache.
template <std::uint32_t M, std::uint32_t N>
__global__ void __launch_bounds__(kItemThreads)
    transpose_blocks(BlocksView blocks, const std::uint32_t* numbers, std::uint32_t run_time_m,
                     std::uint32_t blocks_per_cta, Elements<N>* out, std::uint32_t* max_element) {
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint32_t columns = m * m / N;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, blocks.count - first));
  std::uint32_t largest = 0;
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x; x < num_blocks * columns; x += kItemThreads) {
    const std::uint64_t block = first + x / columns;
    const std::uint32_t at = x % columns * N;
    const std::uint16_t* const from =
        blocks.values + std::uint64_t{numbers == nullptr ? block : numbers[block]} * m * m + at % m * m + at / m;
    Elements<N> column;
#pragma unroll
    for (std::uint32_t e = 0; e < N; ++e) {
      column.x[e] = from[e * m];
      largest = max(largest, std::uint32_t{column.x[e]});
    }
    out[first * columns + x] = column;
  }
  if (max_element != nullptr) raise_max(max_element, largest);
}

template <std::uint32_t M>
void transpose(const BlocksView& blocks, const std::uint32_t* numbers, std::uint32_t m, std::uint16_t* out,
               std::uint32_t* max_element, cudaStream_t stream) {
  constexpr std::uint32_t kColumn = M == 0 ? 1 : std::min(M, 8u);
  const std::uint32_t blocks_per_cta = std::max(1u, kColumnsPerCta / (m * m / kColumn));
  const auto grid = static_cast<unsigned>((blocks.count + blocks_per_cta - 1) / blocks_per_cta);
  transpose_blocks<M, kColumn><<<grid, kItemThreads, 0, stream>>>(
      blocks, numbers, m, blocks_per_cta, reinterpret_cast<Elements<kColumn>*>(out), max_element);
}

template <class Index>
void make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to, cudaStream_t stream) {
  auto* const indptr = static_cast<Index*>(to.indptr);
  auto* const indices = static_cast<Index*>(to.indices);
  const auto end = static_cast<std::uint32_t>(num_blocks);
  // The upper levels of the searches stay in cache.
  launch_items(std::max(to.num_rows + 1, num_blocks), stream, "make_indices", [=] __device__(std::uint64_t x) {
    if (x < num_blocks) indices[x] = static_cast<Index>(heads[2 * x + 1]);
    if (x <= to.num_rows) indptr[x] = static_cast<Index>(find_head(heads, 0, end, 0, static_cast<std::uint32_t>(x)));
  });
}

}  // namespace

void launch_read_arrays(const ArraysView& a, const ArraysView& b, std::uint32_t m, cudaStream_t stream) {
  const BothArrays both{{a, b}};
  const std::uint64_t num_rows = std::max(a.num_rows, b.num_rows);
  const std::uint32_t lanes = lanes_per_row(std::max(a.num_blocks, b.num_blocks), num_rows);
  for_index_type(a.index_bytes, [&]<class Index>(Index) {
    const auto kernel = lanes == 32 ? read_arrays<Index, 32> : read_arrays<Index, kFewLanes>;
    kernel<<<dim3(item_grid(num_rows * lanes), 2), kItemThreads, 0, stream>>>(both);
  });
  check_launch("read_arrays");
  if (a.values == nullptr && b.values == nullptr) return;
  const unsigned grid = item_grid(std::max(a.num_blocks * m, b.num_blocks));
  find_zeros<<<dim3(grid, 2), kItemThreads, 0, stream>>>(both, m);
  check_launch("find_zeros");
}

void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* most, cudaStream_t stream) {
  if (count == 0) return;
  max_element<<<item_grid(count / kValuesPerThread), kItemThreads, 0, stream>>>(values, count, most);
  check_launch("max_element");
}

void launch_transpose_blocks(const BlocksView& values, const std::uint32_t* numbers, std::uint32_t m,
                             std::uint16_t* out, std::uint32_t* max_element, cudaStream_t stream) {
  if (values.count == 0) return;
  for_block_side<4, 8, 16>(
      m, [&](auto side) { transpose<decltype(side)::value>(values, numbers, m, out, max_element, stream); });
  check_launch("transpose_blocks");
}

void launch_make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to,
                         cudaStream_t stream) {
  for_index_type(to.index_bytes, [&]<class Index>(Index) { make_indices<Index>(heads, num_blocks, to, stream); });
}

}  // namespace spmm::kernels
