// Block-CSR arrays of a caller to sort keys, with their checks, and packed records to such arrays.
#include "kernels/blocks/arrays.hpp"

#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/saturated_count.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/views.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: one warp per block row.
// Work: a warp checks the ends of its row, then makes a key of each block column that is in range.
// Memory: contiguous within a row. Indices of a row whose ends are wrong are not read.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    read_arrays(ArraysView arrays, std::uint64_t* keys, ArrayFindings* findings) {
  const auto* const indptr = static_cast<const Index*>(arrays.indptr);
  const auto* const indices = static_cast<const Index*>(arrays.indices);
  for (std::uint64_t row = this_warp(); row < arrays.num_rows; row += std::uint64_t{gridDim.x} * kItemWarps) {
    const std::int64_t begin = indptr[row];
    const std::int64_t end = indptr[row + 1];
    const auto count = static_cast<std::int64_t>(arrays.num_blocks);
    const bool is_sound = begin >= 0 && begin <= end && end <= count && (row != 0 || begin == 0) &&
                          (row + 1 != arrays.num_rows || end == count);
    if (!is_sound) {
      if (threadIdx.x % 32 == 0) atomicMin(&findings->bad_row, static_cast<unsigned long long>(row));  // across CTAs
      continue;
    }
    for (std::int64_t p = begin + threadIdx.x % 32; p < end; p += 32) {
      const std::int64_t column = indices[p];
      if (column < 0 || column >= static_cast<std::int64_t>(arrays.num_columns)) {
        atomicMin(&findings->bad_index, static_cast<unsigned long long>(p));  // across CTAs
      } else {
        keys[p] = row << arrays.key_bits | static_cast<std::uint64_t>(column);
      }
    }
  }
}

/// Raises *most to the largest value of a warp. Threads: whole warps.
__device__ void raise(std::uint32_t* most, std::uint32_t value) {
  value = warp_max(value);
  // Across CTAs; it only grows, so a stale read costs one atomic.
  if (threadIdx.x % 32 == 0 && value > *most) atomicMax(most, value);
}

constexpr std::uint64_t kValuesPerThread = 32;

// Grid: one thread per kValuesPerThread values, two at a time, which lie a grid apart.
// Work: the larger half of each word; a warp reduces, and raises the answer.
// Memory: contiguous reads of 32 bits; a first or last value that is half a word is read alone.
__global__ void __launch_bounds__(kItemThreads)
    max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* most) {
  const std::uint64_t lead = reinterpret_cast<std::uintptr_t>(values) % 4 != 0 ? 1 : 0;
  const auto* const words = reinterpret_cast<const ushort2*>(values + lead);
  std::uint32_t own = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) own = max(std::uint32_t{values[0]}, std::uint32_t{values[count - 1]});
  for_each_item((count - lead) / 2, [&](std::uint64_t x) {
    const ushort2 two = words[x];
    own = max(own, max(std::uint32_t{two.x}, std::uint32_t{two.y}));
  });
  raise(most, own);
}

/// Columns of blocks per CTA, at most; one block at least: four per thread.
constexpr std::uint32_t kColumnsPerCta = 1024;

/// Elements of a column that a thread moves at once: those of a word of 16 bytes at most.
template <std::uint32_t N>
struct alignas(2 * N) Column {
  std::uint16_t elements[N];
};

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per N elements of a row of the result, which are a column before, neighbours by neighbouring
//       threads. M: 0 = at run time, N = 1. numbers: null = blocks stay in their order. most: raised to the largest
//       element, or null.
// Memory: writes are contiguous; strided reads of whole blocks, which stay in cache.
template <std::uint32_t M, std::uint32_t N>
__global__ void __launch_bounds__(kItemThreads)
    transpose_blocks(BlocksView blocks, const std::uint32_t* numbers, std::uint32_t run_time_m,
                     std::uint32_t blocks_per_cta, Column<N>* out, std::uint32_t* most) {
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
    Column<N> column;
#pragma unroll
    for (std::uint32_t e = 0; e < N; ++e) {
      column.elements[e] = from[e * m];
      largest = max(largest, std::uint32_t{column.elements[e]});
    }
    out[first * columns + x] = column;
  }
  if (most == nullptr) return;
  raise(most, largest);
}

template <std::uint32_t M>
void transpose(const BlocksView& blocks, const std::uint32_t* numbers, std::uint32_t m, std::uint16_t* out,
               std::uint32_t* most, cudaStream_t stream) {
  constexpr std::uint32_t kColumn = M == 0 ? 1 : std::min(M, 8u);
  const std::uint32_t blocks_per_cta = std::max(1u, kColumnsPerCta / (m * m / kColumn));
  const auto grid = static_cast<unsigned>((blocks.count + blocks_per_cta - 1) / blocks_per_cta);
  transpose_blocks<M, kColumn><<<grid, kItemThreads, 0, stream>>>(blocks, numbers, m, blocks_per_cta,
                                                                  reinterpret_cast<Column<kColumn>*>(out), most);
}

/// 32-bit words of records per CTA, about; 16 records at least. Source: as for packing, pack_records.cu.
constexpr std::uint32_t kWordsPerCta = 8192;

// Grid: one CTA per records_per_cta records.
// Work: one thread per Word of elements, 64 bits wide where their number is even; then one per record, for its head.
//       M: 0 = at run time.
// Memory: contiguous reads but for the gaps of the heads, contiguous writes; heads come from cache.
template <class Word, std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    unpack_records(const Word* records, std::uint64_t num_blocks, std::uint32_t run_time_elements,
                   std::uint32_t records_per_cta, UnpackedRecords to) {
  constexpr std::uint32_t kPerWord = sizeof(Word) / 4;
  const std::uint32_t value_words = (M != 0 ? M * M : run_time_elements) / kPerWord;
  const std::uint32_t head_words = 2 / kPerWord;
  const std::uint32_t record_words = head_words + value_words;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * records_per_cta;
  const std::uint64_t left = num_blocks - first;
  const std::uint32_t count = left < records_per_cta ? static_cast<std::uint32_t>(left) : records_per_cta;
  const Word* const own = records + first * record_words;
  Word* const values = reinterpret_cast<Word*>(to.values) + first * value_words;
  SaturatedCount saturated;
#pragma unroll 8
  for (std::uint32_t x = threadIdx.x; x < count * value_words; x += kItemThreads) {
    const Word word = own[x / value_words * record_words + head_words + x % value_words];
    saturated.add(word);
    values[x] = word;
  }
  saturated.add_to(to.num_saturated);
  for (std::uint32_t r = threadIdx.x; r < count; r += kItemThreads) {
    const auto* const head = reinterpret_cast<const std::uint32_t*>(own + std::uint64_t{r} * record_words);
    reinterpret_cast<uint2*>(to.heads)[first + r] = uint2{head[0], head[1]};
  }
}

template <class Word, std::uint32_t M>
void unpack(const std::uint32_t* records, std::uint64_t num_blocks, std::uint32_t m, const UnpackedRecords& to,
            cudaStream_t stream) {
  const std::uint32_t records_per_cta = std::max(16u, kWordsPerCta / (m * m + 2));
  const auto grid = static_cast<unsigned>((num_blocks + records_per_cta - 1) / records_per_cta);
  const auto* const words = reinterpret_cast<const Word*>(records);
  unpack_records<Word, M><<<grid, kItemThreads, 0, stream>>>(words, num_blocks, m * m, records_per_cta, to);
}

// Grid: one thread per block of the result.
// Work: a thread looks how many blocks of A its row has; a warp compares the elements of each block that may have some
// at
//       the limit.
// Memory: contiguous reads of heads and of those blocks; indptr comes from cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    count_saturated_rows(const uint2* heads, const std::uint32_t* values, std::uint64_t num_blocks,
                         std::uint32_t elements, const Index* a_indptr, std::uint64_t sure_blocks,
                         unsigned long long* num_saturated) {
  SaturatedCount count;
  for (std::uint64_t first = std::uint64_t{this_warp()} * 32; first < num_blocks;
       first += std::uint64_t{gridDim.x} * kItemThreads) {
    const std::uint64_t own = first + threadIdx.x % 32;
    bool is_open = own < num_blocks;
    if (is_open) {
      const std::uint32_t row = heads[own].x;
      is_open = static_cast<std::uint64_t>(a_indptr[row + 1] - a_indptr[row]) > sure_blocks;
    }
    for (unsigned open = __ballot_sync(0xFFFF'FFFFu, is_open); open != 0; open &= open - 1) {
      const std::uint32_t* const block = values + (first + __ffs(static_cast<int>(open)) - 1) * elements;
      for (std::uint32_t e = threadIdx.x % 32; e < elements; e += 32) count.add(block[e]);
    }
  }
  count.add_to(num_saturated);
}

/// First record of a block row or a later one.
__device__ inline std::uint64_t first_of_row(const uint2* heads, std::uint64_t num_blocks, std::uint64_t row) {
  std::uint64_t begin = 0;
  std::uint64_t end = num_blocks;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (heads[middle].x < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Grid: one thread per block row and one more, or per record.
// Work: a binary search in the heads; copies a block column.
// Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
template <class Index>
__global__ void __launch_bounds__(kItemThreads)
    make_indices(const uint2* heads, std::uint64_t num_blocks, std::uint64_t num_rows, Index* indptr, Index* indices) {
  for_each_item(max(num_rows + 1, num_blocks), [=](std::uint64_t x) {
    if (x < num_blocks) indices[x] = static_cast<Index>(heads[x].y);
    if (x <= num_rows) indptr[x] = static_cast<Index>(first_of_row(heads, num_blocks, x));
  });
}

}  // namespace

void launch_read_arrays(const ArraysView& arrays, std::uint64_t* keys, ArrayFindings* findings, cudaStream_t stream) {
  const unsigned grid = warp_grid(arrays.num_rows);
  if (arrays.index_bytes == 8) {
    read_arrays<std::int64_t><<<grid, kItemThreads, 0, stream>>>(arrays, keys, findings);
  } else {
    read_arrays<std::int32_t><<<grid, kItemThreads, 0, stream>>>(arrays, keys, findings);
  }
  check_launch("read_arrays");
}

void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* most, cudaStream_t stream) {
  if (count == 0) return;
  max_element<<<item_grid(count / kValuesPerThread), kItemThreads, 0, stream>>>(values, count, most);
  check_launch("max_element");
}

void launch_transpose_blocks(const std::uint16_t* values, const std::uint32_t* numbers, std::uint64_t count,
                             std::uint32_t m, std::uint16_t* out, std::uint32_t* max_element, cudaStream_t stream) {
  if (count == 0) return;
  for_block_side<4, 8, 16>(m, [&](auto side) {
    transpose<decltype(side)::value>({.values = values, .count = count}, numbers, m, out, max_element, stream);
  });
  check_launch("transpose_blocks");
}

void launch_unpack_records(const std::uint32_t* records, std::uint64_t num_blocks, std::uint32_t m,
                           const UnpackedRecords& to, cudaStream_t stream) {
  if (num_blocks == 0) return;
  for_block_side<4, 8>(m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if (m % 2 == 0) {
      unpack<std::uint64_t, kM>(records, num_blocks, m, to, stream);
    } else if constexpr (kM == 0) {
      unpack<std::uint32_t, 0>(records, num_blocks, m, to, stream);
    }
  });
  check_launch("unpack_records");
}

void launch_count_saturated_rows(const std::uint32_t* heads, const std::uint32_t* values, std::uint64_t num_blocks,
                                 std::uint32_t m, const SaturatedRows& rows, unsigned long long* num_saturated,
                                 cudaStream_t stream) {
  if (num_blocks == 0) return;
  const auto launch = [&]<class Index>(const Index* a_indptr) {
    count_saturated_rows<<<item_grid(num_blocks), kItemThreads, 0, stream>>>(
        reinterpret_cast<const uint2*>(heads), values, num_blocks, m * m, a_indptr, rows.sure_blocks, num_saturated);
  };
  if (rows.index_bytes == 8) {
    launch(static_cast<const std::int64_t*>(rows.a_indptr));
  } else {
    launch(static_cast<const std::int32_t*>(rows.a_indptr));
  }
  check_launch("count_saturated_rows");
}

void launch_make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to,
                         cudaStream_t stream) {
  const unsigned grid = item_grid(std::max(to.num_rows + 1, num_blocks));
  const auto launch = [&]<class Index>(Index* indptr) {
    make_indices<<<grid, kItemThreads, 0, stream>>>(reinterpret_cast<const uint2*>(heads), num_blocks, to.num_rows,
                                                    indptr, static_cast<Index*>(to.indices));
  };
  if (to.index_bytes == 8) {
    launch(static_cast<std::int64_t*>(to.indptr));
  } else {
    launch(static_cast<std::int32_t*>(to.indptr));
  }
  check_launch("make_indices");
}

}  // namespace spmm::kernels
