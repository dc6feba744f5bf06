// Blocks of side 8 whose pattern is known: the listed pairs of each C block, multiplied as the caller's values lie.
#include "kernels/byte_mma.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/pairs/launch.hpp"
#include "spmm/saturate.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kElements = kPlannedListSide * kPlannedListSide;
constexpr std::uint32_t kAtOnce = 8;  // C blocks of a warp. S5 on an H100: with 2, 4 and 8 1.20, 1.15 and 1.11 ms

/// A lane's two elements of a block: row lane / 4, columns 2 * (lane % 4) and the next one.
__device__ inline std::uint32_t load_two(const std::uint16_t* values, std::uint32_t block) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(values + std::uint64_t{block} * kElements) + threadIdx.x % 32);
}

/// A lane's two elements of the transposed block, from its two of the block.
/// Source: PTX ISA, movmatrix. Threads: one whole warp.
__device__ inline std::uint32_t transposed(std::uint32_t two) {
  std::uint32_t out = 0;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(two));
  return out;
}

/// A lane's elements of the blocks of two pairs. Of the 16 terms of a product, 4q and 4q + 1 are those of columns 2q
/// and 2q + 1 of the first pair's block of A, the next two those of the second pair's.
struct TwoPairs {
  uint2 a{0, 0};
  uint2 b{0, 0};

  __device__ void load(BlockPair pair, const std::uint16_t* from_a, const std::uint16_t* from_b, bool is_second) {
    (is_second ? a.y : a.x) = load_two(from_a, pair.a);
    (is_second ? b.y : b.x) = load_two(from_b, pair.b);
  }
  /// Adds the products to a lane's two sums. Threads: one whole warp.
  __device__ void add_to(std::uint64_t (&sums)[2]) const {
    Sums8 products;
    products.add(split_bytes(a), split_bytes(uint2{transposed(b.x), transposed(b.y)}));
    sums[0] += products.sum(0);
    sums[1] += products.sum(1);
  }
};

/// Adds the products of the pairs [begin, end). Threads: one whole warp.
__device__ inline void add_listed(const BlockPair* pairs, std::uint32_t begin, std::uint32_t end,
                                  const std::uint16_t* a, const std::uint16_t* b, std::uint64_t (&sums)[2]) {
#pragma unroll 1
  for (std::uint32_t p = begin; p < end; p += 2) {
    TwoPairs terms;
    terms.load(pairs[p], a, b, false);
    if (p + 1 < end) terms.load(pairs[p + 1], a, b, true);
    terms.add_to(sums);
  }
}

// Grid: a warp per 32 C blocks.
// Work: a lane knows where the pairs of a C block begin, and its first two; the warp multiplies them, kAtOnce C blocks
//       at a time.
// Memory: a block of 128 bytes by each load, 256 bytes by each write, which are not read again soon.
__global__ void __launch_bounds__(kItemThreads)
    mul_planned_list(PairListView list, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint64_t first = std::uint64_t{this_warp()} * 32;
  if (first >= list.num_c_blocks) return;
  const auto num_c_blocks = static_cast<std::uint32_t>(min(std::uint64_t{32}, list.num_c_blocks - first));
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  BlockPair pair{};
  BlockPair second{};
  if (lane < num_c_blocks) {
    begin = __ldcs(list.offsets + first + lane);
    end = __ldcs(list.offsets + first + lane + 1);
    pair = list.pairs[begin];
    if (end - begin > 1) second = list.pairs[begin + 1];
  }
  const auto pair_of = [](BlockPair own, std::uint32_t x) {
    return BlockPair{.a = __shfl_sync(~0u, own.a, x), .b = __shfl_sync(~0u, own.b, x)};
  };
  const std::uint32_t with_second = __ballot_sync(~0u, end - begin > 1);
  const std::uint32_t with_more = __ballot_sync(~0u, end - begin > 2);
#pragma unroll 1
  for (std::uint32_t x = 0; x < num_c_blocks; x += kAtOnce) {
    TwoPairs terms[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {  // behind the last C block: blocks 0, read in vain
      terms[u].load(pair_of(pair, x + u), a, b, false);
      if ((with_second >> (x + u) & 1) != 0) terms[u].load(pair_of(second, x + u), a, b, true);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (x + u >= num_c_blocks) break;  // the same for all lanes
      std::uint64_t sums[2] = {0, 0};
      terms[u].add_to(sums);
      if ((with_more >> (x + u) & 1) != 0) {
        add_listed(list.pairs, __shfl_sync(~0u, begin, x + u) + 2, __shfl_sync(~0u, end, x + u), a, b, sums);
      }
      __stcs(reinterpret_cast<uint2*>(c + (first + x + u) * kElements) + lane,
             uint2{saturate(sums[0]), saturate(sums[1])});
    }
  }
}

}  // namespace

void launch_mul_planned_list(const PairListView& list, const std::uint16_t* a, const std::uint16_t* b, std::uint32_t* c,
                             cudaStream_t stream) {
  if (list.num_c_blocks == 0) return;
  const std::uint64_t num_warps = (list.num_c_blocks - 1) / 32 + 1;
  const auto grid = static_cast<unsigned>((num_warps - 1) / kItemWarps + 1);
  mul_planned_list<<<grid, kItemThreads, 0, stream>>>(list, a, b, c);
  check_launch("mul_planned_list");
}

}  // namespace spmm::kernels
