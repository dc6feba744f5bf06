// Split-K: the pairs of C blocks with very many of them are cut into parts that many CTAs multiply and add up, so that
// no warp works through a long list alone.
#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/pairs/launch.hpp"
#include "kernels/pairs/pair_products.cuh"
#include "kernels/tuning.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;

/// Successive pairs of a CTA: enough that its m * m additions to global memory cost little compared with them, few
/// enough that one list of 10^5 pairs keeps every multiprocessor busy. side: padded.
__host__ __device__ constexpr std::uint32_t pairs_per_cta(std::uint32_t side) {
  return 8192 / side;
}

/// All pairs of a list.
struct AllPairs {
  const BlockPair* pairs;
  [[nodiscard]] __device__ BlockPair pair(std::uint32_t p) const { return pairs[p]; }
};

/// The pairs of one C block that a CTA multiplies, and where it adds them up.
struct KSlice {
  const RowProduct& product;
  AllPairs pairs;
  std::uint32_t begin;
  std::uint32_t end;
  unsigned long long* sums;  // [m, m], shared

  /// Where part `part` of `num_parts` begins; part num_parts begins at the end.
  [[nodiscard]] __device__ std::uint32_t part_begin(std::uint32_t part, std::uint32_t num_parts) const {
    return begin + (end - begin) * part / num_parts;  // a slice has at most 2,048 pairs
  }
  /// What is behind the block is padding, and zero.
  __device__ void add(std::uint32_t row, std::uint32_t column, std::uint64_t sum) const {
    if (sum != 0)
      atomicAdd(sums + row * product.m + column, static_cast<unsigned long long>(sum));  // parts add to one block
  }
};

/// Adds up a slice: half a warp (side 4: lane -> an element) or a warp per part of it.
/// Threads: all of the CTA.
template <std::uint32_t P>
__device__ void add_slice(const KSlice& slice) {
  constexpr std::uint32_t kPartThreads = P == 4 ? 16 : 32;
  constexpr std::uint32_t kParts = kThreads / kPartThreads;
  const std::uint32_t part = threadIdx.x / kPartThreads;
  const std::uint32_t begin = slice.part_begin(part, kParts);
  const std::uint32_t end = slice.part_begin(part + 1, kParts);
  if constexpr (P == 4) {
    const std::uint32_t lane = threadIdx.x % 16;
    slice.add(lane / 4, lane % 4, sum_pairs_4(slice.product, slice.pairs, begin, end));
  } else if constexpr (P == 8) {
    std::uint64_t sums[2] = {};
    add_pairs_8(slice.product, slice.pairs, begin, end, sums);
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) slice.add(Sums8::row(), Sums8::column() + e, sums[e]);
  } else {
    static_assert(pairs_per_cta(P) * P <= Sums8::kMaxTerms);
    using Tile = WarpTile<P>;
    for (std::uint32_t x = 0; x < Tile::kCount; ++x) {
      const Tile tile(x);
      TileSums<P> sums;
      add_pairs_tile<P>(slice.product, slice.pairs, begin, end, tile, sums);
#pragma unroll
      for (std::uint32_t r = 0; r < Tile::kRows; ++r) {
#pragma unroll
        for (std::uint32_t c = 0; c < Tile::kColumns; ++c) {
          const std::uint32_t row = tile.first_row + r * 8 + Sums8::row();
          const std::uint32_t column = tile.first_column + c * 8 + Sums8::column();
#pragma unroll
          for (std::uint32_t e = 0; e < 2; ++e) slice.add(row, column + e, sums.eights[r][c].sum(e));
        }
      }
    }
  }
}

// Grid: one CTA per pairs_per_cta pairs of the panel. A split-K block's list is longer than that, so that only the
// lists that hold a CTA's first and last pair can be some; most CTAs find none and end at once.
// Work: warps, or half warps, take parts of the CTA's pairs, with sums in registers; these are added up in shared
//       memory and then, element by element, in global memory. A sum stays below 2^64: an element has at most 2^32
//       terms, each less than 2^32.
// Memory: a pair is read as whole blocks by neighbouring lanes; m * m atomic additions per CTA and C block.
template <std::uint32_t P>
__global__ void __launch_bounds__(kThreads, 4)
    add_split_k(RowProduct product, PairListView list, std::uint32_t num_pairs) {
  static_assert(pairs_per_cta(P) < kSplitKPairs);
  extern __shared__ unsigned long long sums[];  // [m, m]
  __shared__ std::uint32_t borders[2];          // C blocks of the CTA's first and last pair
  const std::uint32_t m = product.m;
  const std::uint32_t begin = blockIdx.x * pairs_per_cta(P);
  const std::uint32_t end = begin + min(pairs_per_cta(P), num_pairs - begin);
  if (threadIdx.x < 32) {
    const auto num_c_blocks = static_cast<std::uint32_t>(list.num_c_blocks);
    const std::uint32_t of_begin = warp_lower_bound(list.offsets, 0, num_c_blocks, begin + 1) - 1;
    const std::uint32_t of_end = warp_lower_bound(list.offsets, of_begin, num_c_blocks, end) - 1;
    if (threadIdx.x < 2) borders[threadIdx.x] = threadIdx.x == 0 ? of_begin : of_end;
  }
  __syncthreads();  // the lists are found
  const std::uint32_t last = borders[1];
  for (std::uint32_t c_block = borders[0]; c_block <= last; c_block = c_block == last ? c_block + 1 : last) {
    const std::uint32_t first_pair = list.offsets[c_block];
    const std::uint32_t end_pair = list.offsets[c_block + 1];
    if (end_pair - first_pair <= kSplitKPairs) continue;  // the same for all threads
    const KSlice slice{.product = product,
                       .pairs = {list.pairs},
                       .begin = max(begin, first_pair),
                       .end = min(end, end_pair),
                       .sums = sums};
    for (std::uint32_t e = threadIdx.x; e < m * m; e += kThreads) sums[e] = 0;
    __syncthreads();  // sums are clear
    add_slice<P>(slice);
    __syncthreads();  // sums are complete; below, each thread reads and later clears the same elements
    auto* const totals = reinterpret_cast<unsigned long long*>(list.split_k_sums) + split_k_slot(first_pair) * m * m;
    for (std::uint32_t e = threadIdx.x; e < m * m; e += kThreads) {
      if (sums[e] != 0) atomicAdd(totals + e, sums[e]);  // other CTAs add to the same C block
    }
  }
}

}  // namespace

void launch_add_split_k(const RowProduct& product, const PairListView& list, std::uint64_t num_pairs,
                        cudaStream_t stream) {
  const std::size_t bytes = std::size_t{product.m} * product.m * sizeof(std::uint64_t);  // of a C block
  check(cudaMemsetAsync(list.split_k_sums, 0, num_split_k_slots(num_pairs) * bytes, stream), "clear split-K sums");
  const auto count = static_cast<std::uint32_t>(num_pairs);
  for_padded_side(product.m, [&](auto side) {
    constexpr std::uint32_t kSide = decltype(side)::value;
    const unsigned grid = (count - 1) / pairs_per_cta(kSide) + 1;
    add_split_k<kSide><<<grid, kThreads, bytes, stream>>>(product, list, count);
  });
  check_launch("add_split_k");
}

}  // namespace spmm::kernels
