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

// Grid: kLanes threads per block row.
// Work: they check the ends of their row, then make a key of each block column that is in range, and compare it with
// the
//       one before.
// Memory: contiguous within a row. Indices of a row whose ends are wrong are not read.
template <class Index, std::uint32_t kLanes>
__global__ void __launch_bounds__(kItemThreads)
    read_arrays(ArraysView arrays, std::uint64_t* keys, ArrayFindings* findings) {
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
        keys[p] = row << arrays.key_bits | static_cast<std::uint64_t>(column);
        if (p > begin && indices[p - 1] >= column) findings->is_unsorted = 1;  // all that write store 1: no atomic
      }
    }
  });
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

// Grid: one thread per kAtOnce times eight values, which lie a grid apart.
// Work: the threads of a block, two for M = 4 and eight for M = 8, join their rows: a column is zero if nothing is set.
// Memory: contiguous reads of 128 bits.
template <std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    look_at_blocks(const uint4* values, std::uint64_t count, ElementFindings findings) {
  constexpr std::uint32_t kAtOnce = 4;
  constexpr std::uint32_t kLanes = M * M / 8;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kItemThreads;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t most = 0;
  bool has_zeros = false;
  for (std::uint64_t first = std::uint64_t{blockIdx.x} * kItemThreads + threadIdx.x; first - lane < count;
       first += stride * kAtOnce) {
    uint4 eight[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {  // missing values are read again: blocks are whole
      const std::uint64_t x = first + stride * u;
      eight[u] = values[x < count ? x : threadIdx.x % kLanes];
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      std::uint32_t words[4] = {eight[u].x, eight[u].y, eight[u].z, eight[u].w};
      most = __vmaxu2(most, __vmaxu2(__vmaxu2(words[0], words[1]), __vmaxu2(words[2], words[3])));
      if constexpr (M == 4) {  // two rows
        words[0] |= words[2];
        words[1] |= words[3];
      }
      std::uint32_t is_zero = 0;
#pragma unroll
      for (std::uint32_t w = 0; w < M / 2; ++w) {
#pragma unroll
        for (std::uint32_t step = 1; step < kLanes; step *= 2) words[w] |= __shfl_xor_sync(~0u, words[w], step);
        is_zero |= __vcmpeq2(words[w], 0);
      }
      has_zeros |= is_zero != 0;
    }
  }
  raise(findings.max_element, max(most & 0xFFFFu, most >> 16));
  if (has_zeros) *findings.has_zeros = 1;  // all threads that write store 1: no atomic is needed
}

/// Columns of blocks per CTA, at most; one block at least: four per thread.
constexpr std::uint32_t kColumnsPerCta = 1024;

/// Elements of a column that a thread moves at once: those of a word of 16 bytes at most.
template <std::uint32_t N>
struct alignas(2 * N) Column {
  std::uint16_t elements[N];
};

/// Moves N elements of a column of a block to a row of the transposed one; returns the largest. Values: x = their
/// number in eights, of blocks from `first` on.
template <std::uint32_t N>
__device__ inline std::uint32_t transpose_column(const BlocksView& blocks, const std::uint32_t* numbers,
                                                 std::uint32_t m, std::uint64_t first, std::uint32_t x,
                                                 Column<N>* out) {
  const std::uint32_t columns = m * m / N;
  const std::uint64_t block = first + x / columns;
  const std::uint32_t at = x % columns * N;
  const std::uint16_t* const from =
      blocks.values + std::uint64_t{numbers == nullptr ? block : numbers[block]} * m * m + at % m * m + at / m;
  std::uint32_t largest = 0;
  Column<N> column;
#pragma unroll
  for (std::uint32_t e = 0; e < N; ++e) {
    column.elements[e] = from[e * m];
    largest = max(largest, std::uint32_t{column.elements[e]});
  }
  out[first * columns + x] = column;
  return largest;
}

// Grid: one CTA per blocks_per_cta blocks.
// Work: one thread per N elements of a row of the result, which are a column before, neighbours by neighbouring
//       threads. M: 0 = at run time, N = 1. numbers: null = blocks stay in their order. If M = N, the threads of a
//       block tell each other whether they have seen anything but zeros.
// Memory: writes are contiguous; strided reads of whole blocks, which stay in cache.
template <std::uint32_t M, std::uint32_t N>
__global__ void __launch_bounds__(kItemThreads)
    transpose_blocks(BlocksView blocks, const std::uint32_t* numbers, std::uint32_t run_time_m,
                     std::uint32_t blocks_per_cta, Column<N>* out, ElementFindings findings) {
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const std::uint32_t columns = m * m / N;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * blocks_per_cta;
  const auto num_blocks = static_cast<std::uint32_t>(min(std::uint64_t{blocks_per_cta}, blocks.count - first));
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t end = num_blocks * columns;
  std::uint32_t largest = 0;
  bool has_zeros = false;
#pragma unroll 2
  for (std::uint32_t x = threadIdx.x; x - lane < end; x += kItemThreads) {  // whole warps
    std::uint32_t most = 0;
    if (x < end) most = transpose_column<N>(blocks, numbers, m, first, x, out);
    largest = max(largest, most);
    if constexpr (M != 0 && M == N) {
      constexpr std::uint32_t kBlock = (1u << M) - 1;
      const std::uint32_t some = __ballot_sync(~0u, x >= end || most != 0);
      has_zeros |= (some >> lane / M * M & kBlock) == 0;
    }
  }
  if (findings.max_element != nullptr) raise(findings.max_element, largest);
  // All threads that write store 1: no atomic is needed.
  if (has_zeros && findings.has_zeros != nullptr) *findings.has_zeros = 1;
}
template <std::uint32_t M>
void transpose(const BlocksView& blocks, const std::uint32_t* numbers, std::uint32_t m, std::uint16_t* out,
               const ElementFindings& findings, cudaStream_t stream) {
  constexpr std::uint32_t kColumn = M == 0 ? 1 : std::min(M, 8u);
  const std::uint32_t blocks_per_cta = std::max(1u, kColumnsPerCta / (m * m / kColumn));
  const auto grid = static_cast<unsigned>((blocks.count + blocks_per_cta - 1) / blocks_per_cta);
  transpose_blocks<M, kColumn><<<grid, kItemThreads, 0, stream>>>(blocks, numbers, m, blocks_per_cta,
                                                                  reinterpret_cast<Column<kColumn>*>(out), findings);
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

/// Counts the elements at the limit in those C blocks of a warp whose lanes are open: one for each lane, from `first`
/// on. Threads: one whole warp.
__device__ inline void count_open_blocks(const std::uint32_t* first, std::uint32_t elements, bool is_open,
                                         SaturatedCount& count) {
  for (std::uint32_t open = __ballot_sync(~0u, is_open); open != 0;) {  // blocks of a row follow each other
    const std::uint32_t begin = __ffs(static_cast<int>(open)) - 1;
    const std::uint32_t closed = ~(open >> begin);
    const std::uint32_t run = closed == 0 ? 32 : __ffs(static_cast<int>(closed)) - 1;
    const std::uint32_t* const values = first + begin * elements;
    const std::uint32_t end = run * elements;
    const bool in_fours = elements % 4 == 0;  // then blocks lie at multiples of 16 bytes
    if (in_fours) {
#pragma unroll 4
      for (std::uint32_t e = threadIdx.x % 32; e < end / 4; e += 32) {
        const uint4 four = __ldcs(reinterpret_cast<const uint4*>(values) + e);
        count.add(std::uint64_t{four.y} << 32 | four.x);
        count.add(std::uint64_t{four.w} << 32 | four.z);
      }
    }
#pragma unroll 4
    for (std::uint32_t e = in_fours ? end : threadIdx.x % 32; e < end; e += 32) count.add(values[e]);
    open = begin + run >= 32 ? 0 : open >> (begin + run) << (begin + run);
  }
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
// Work: a binary search in the heads; copies a block column. A warp counts elements at the limit in rows of many
// blocks. Memory: contiguous writes; scattered reads, the upper levels of which stay in cache.
template <class Index, bool Counts>
__global__ void __launch_bounds__(kItemThreads)
    make_indices(const uint2* heads, std::uint64_t num_blocks, std::uint64_t num_rows, Index* indptr, Index* indices,
                 SaturatedRows saturated) {
  const auto* const a_indptr = static_cast<const Index*>(saturated.a_indptr);
  const std::uint64_t count = max(num_rows + 1, num_blocks);
  const std::uint32_t lane = threadIdx.x % 32;
  SaturatedCount num_saturated;
  for (std::uint64_t x = std::uint64_t{blockIdx.x} * kItemThreads + threadIdx.x; x - lane < count;
       x += std::uint64_t{gridDim.x} * kItemThreads) {  // whole warps
    const bool is_block = x < num_blocks;
    const uint2 head = is_block ? heads[x] : uint2{0, 0};
    if (is_block) indices[x] = static_cast<Index>(head.y);
    if (x <= num_rows) indptr[x] = static_cast<Index>(first_of_row(heads, num_blocks, x));
    if constexpr (Counts) {
      const bool is_open =
          is_block && (a_indptr == nullptr ||
                       static_cast<std::uint64_t>(a_indptr[head.x + 1] - a_indptr[head.x]) > saturated.sure_blocks);
      count_open_blocks(saturated.values + (x - lane) * saturated.elements, saturated.elements, is_open, num_saturated);
    }
  }
  if constexpr (Counts) num_saturated.add_to(saturated.num_saturated);
}

}  // namespace

void launch_read_arrays(const ArraysView& arrays, std::uint64_t* keys, ArrayFindings* findings, cudaStream_t stream) {
  const std::uint32_t lanes = lanes_per_row(arrays.num_blocks, arrays.num_rows);
  const auto launch = [&]<class Index>(Index) {
    const auto kernel = lanes == 32 ? read_arrays<Index, 32> : read_arrays<Index, kFewLanes>;
    kernel<<<item_grid(arrays.num_rows * lanes), kItemThreads, 0, stream>>>(arrays, keys, findings);
  };
  if (arrays.index_bytes == 8) {
    launch(std::int64_t{});
  } else {
    launch(std::int32_t{});
  }
  check_launch("read_arrays");
}

void launch_max_element(const std::uint16_t* values, std::uint64_t count, std::uint32_t* most, cudaStream_t stream) {
  if (count == 0) return;
  max_element<<<item_grid(count / kValuesPerThread), kItemThreads, 0, stream>>>(values, count, most);
  check_launch("max_element");
}

void launch_look_at_blocks(const std::uint16_t* values, std::uint64_t num_blocks, std::uint32_t m,
                           const ElementFindings& findings, cudaStream_t stream) {
  if (num_blocks == 0) return;
  const std::uint64_t count = num_blocks * m * m / 8;
  const unsigned grid = item_grid((count + 3) / 4);
  const auto* const eights = reinterpret_cast<const uint4*>(values);
  if (m == 4) {
    look_at_blocks<4><<<grid, kItemThreads, 0, stream>>>(eights, count, findings);
  } else {
    look_at_blocks<8><<<grid, kItemThreads, 0, stream>>>(eights, count, findings);
  }
  check_launch("look_at_blocks");
}

void launch_transpose_blocks(const BlocksView& values, const std::uint32_t* numbers, std::uint32_t m,
                             std::uint16_t* out, const ElementFindings& findings, cudaStream_t stream) {
  if (values.count == 0) return;
  for_block_side<4, 8, 16>(
      m, [&](auto side) { transpose<decltype(side)::value>(values, numbers, m, out, findings, stream); });
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

void launch_make_indices(const std::uint32_t* heads, std::uint64_t num_blocks, const IndexArrays& to,
                         const SaturatedRows& saturated, cudaStream_t stream) {
  const unsigned grid = item_grid(std::max(to.num_rows + 1, num_blocks));
  const auto launch = [&]<class Index>(Index* indptr) {
    const auto kernel = saturated.num_saturated == nullptr ? make_indices<Index, false> : make_indices<Index, true>;
    kernel<<<grid, kItemThreads, 0, stream>>>(reinterpret_cast<const uint2*>(heads), num_blocks, to.num_rows, indptr,
                                              static_cast<Index*>(to.indices), saturated);
  };
  if (to.index_bytes == 8) {
    launch(static_cast<std::int64_t*>(to.indptr));
  } else {
    launch(static_cast<std::int32_t*>(to.indptr));
  }
  check_launch("make_indices");
}

}  // namespace spmm::kernels
