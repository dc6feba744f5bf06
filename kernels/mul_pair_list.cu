// For hypersparse products: every tile comes with the list of its pairs, a warp or half a warp multiplies it.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"
#include "kernels/row_dot.cuh"

namespace spmm::kernels {
namespace {

// Grid: one group of lanes per tile, kItemThreads per CTA.
// Work: lane -> some rows of one column of the block (LaneShare); sums stay in registers over all pairs of the tile.
// Memory: a pair is read as whole blocks by neighbouring lanes (rows of A, columns of B, 16 bytes each for m = 8);
//         results are written contiguously.
template <std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    mul_pair_list(const std::uint16_t* a_values, const std::uint16_t* b_values, PairListView list,
                  TileResults results) {
  using Share = LaneShare<M>;
  const std::uint64_t tile = (std::uint64_t{blockIdx.x} * kItemThreads + threadIdx.x) / Share::kLanes;
  if (tile >= list.num_tiles) return;
  const std::uint32_t lane = threadIdx.x % Share::kLanes;
  const std::uint32_t end = list.offsets[tile + 1];
  std::uint64_t sums[Share::kPerLane] = {};
  for (std::uint32_t p = list.offsets[tile]; p < end; ++p) {
    const BlockPair pair = list.pairs[p];
    const std::uint16_t* const a = a_values + (std::uint64_t{pair.a} * M + lane / M) * M;
    const Line<M> column(b_values + (std::uint64_t{pair.b} * M + lane % M) * M);
#pragma unroll
    for (std::uint32_t x = 0; x < Share::kPerLane; ++x) sums[x] += column.dot(Line<M>(a + x * Share::kRowStep * M));
  }
  bool any = false;
#pragma unroll
  for (std::uint32_t x = 0; x < Share::kPerLane; ++x) {
    const std::uint32_t value = saturate(sums[x]);
    results.values[tile * M * M + x * Share::kLanes + lane] = value;
    any |= value != 0;
  }
  if (any) results.non_zero[tile] = 1;  // everyone who writes writes 1
}

// The same for any m: a warp per tile, one pass over the pairs for every 32 elements.
__global__ void __launch_bounds__(kItemThreads)
    mul_pair_list_any_m(const std::uint16_t* a_values, const std::uint16_t* b_values, PairListView list,
                        std::uint32_t m, TileResults results) {
  const std::uint64_t tile = (std::uint64_t{blockIdx.x} * kItemThreads + threadIdx.x) / 32;
  if (tile >= list.num_tiles) return;
  const std::uint32_t begin = list.offsets[tile];
  const std::uint32_t end = list.offsets[tile + 1];
  for (std::uint32_t e = threadIdx.x % 32; e < m * m; e += 32) {
    std::uint64_t sum = 0;
    for (std::uint32_t p = begin; p < end; ++p) {
      const BlockPair pair = list.pairs[p];
      sum += dot(a_values + (std::uint64_t{pair.a} * m + e / m) * m, b_values + (std::uint64_t{pair.b} * m + e % m) * m,
                 m);
    }
    const std::uint32_t value = saturate(sum);
    results.values[tile * m * m + e] = value;
    if (value != 0) results.non_zero[tile] = 1;  // everyone who writes writes 1
  }
}

/// CTAs for `lanes` threads per tile.
unsigned tile_grid(std::uint64_t num_tiles, std::uint32_t lanes) {
  return static_cast<unsigned>((num_tiles * lanes + kItemThreads - 1) / kItemThreads);
}

template <std::uint32_t M>
void launch(const OperandView& a, const OperandView& b, const PairListView& list, const TileResults& results,
            cudaStream_t stream) {
  mul_pair_list<M>
      <<<tile_grid(list.num_tiles, LaneShare<M>::kLanes), kItemThreads, 0, stream>>>(a.values, b.values, list, results);
}

}  // namespace

void launch_mul_pair_list(const OperandView& a, const OperandView& b, const PairListView& list, std::uint32_t m,
                          const TileResults& results, cudaStream_t stream) {
  if (list.num_tiles == 0) return;
  check(cudaMemsetAsync(results.non_zero, 0, list.num_tiles, stream), "clear flags");
  switch (m) {
    case 4:
      launch<4>(a, b, list, results, stream);
      break;
    case 8:
      launch<8>(a, b, list, results, stream);
      break;
    case 16:
      launch<16>(a, b, list, results, stream);
      break;
    case 32:
      launch<32>(a, b, list, results, stream);
      break;
    default:
      mul_pair_list_any_m<<<tile_grid(list.num_tiles, 32), kItemThreads, 0, stream>>>(a.values, b.values, list, m,
                                                                                      results);
  }
  check_launch("mul_pair_list");
}

}  // namespace spmm::kernels
