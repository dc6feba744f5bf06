// Dense product of elements of up to 14 bits with three byte products a multiply-add instead of four (Karatsuba).
// Compiled for sm_90a alone.
//
// With elements high << s | low, hh, ll and ss the sums of high * high, low * low and (high + low) * (high + low):
//   sum = hh << 2s + (ss - hh - ll) << s + ll.
// A thread has registers for one of the three sums of its 128 elements, and a byte of shared memory for each:
//   1. hh. An element with hh << 2s >= 2^32 - 1 is saturated, whatever follows: bit 7 of its byte. d = -hh << s.
//   2. + ll. Now d = (ll >> s) - hh and, below that, s bits of ll, exactly, as a signed number: hh < 2^(32 - 2s) if
//      bit 7 is not set, and ll < 65,536 * 2^2s <= 2^30. The s bits go to the byte; d = (2^s - 1) (hh - (ll >> s)) less
//      the s bits.
//   3. + ss. Now d = sum >> s, exactly, if bit 7 is not set: hh << s < 2^27, ss - hh - ll <= 65,536 * 2 * 127^2 and
//      ll >> s < 2^25 are less than 2^32 together. On the way sums wrap.
#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/dense/arith.cuh"
#include "kernels/dense/hopper.cuh"
#include "kernels/dense/launch.hpp"
#include "kernels/dense/tensor_fragment.cuh"
#include "kernels/dense/tensor_maps.cuh"
#include "kernels/dense/tensor_stages.cuh"

namespace spmm::kernels {
namespace {

using hopper::Barrier;
using tensor::FragmentOrigin;
using tensor::kColumns;
using tensor::kConsumers;
using tensor::kDepth;
using tensor::kMaxStages;
using tensor::kRows;
using tensor::kStages;
using tensor::kThreads;
using tensor::Problem;
using tensor::ResultTile;
using tensor::Stage;

constexpr std::uint32_t kSums = 128;           // of a thread
constexpr std::uint32_t kHighCheckEvery = 64;  // stages of the first pass between checks for a saturated tile

struct __align__(1024) Shared {
  Stage stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  volatile std::uint32_t stop;
  std::uint32_t kept[kSums / 4][kConsumers];  // four bytes for four sums of a thread
};
constexpr std::size_t kSharedBytes = sizeof(Shared) + 1024;
static_assert(kSharedBytes <= 227 << 10);

/// After the first pass: from hh to what the second one adds to.
__device__ void keep_saturated(Shared& shared, std::uint32_t (&d)[kSums], const Problem& problem) {
#pragma unroll
  for (std::uint32_t word = 0; word < kSums / 4; ++word) {
    std::uint32_t kept = 0;
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) {
      std::uint32_t& sum = d[4 * word + e];
      kept |= sum >= problem.limit ? 0x80u << 8 * e : 0;
      sum = 0u - (sum << problem.shift);
    }
    shared.kept[word][threadIdx.x] = kept;
  }
}

/// After the second pass: to what the third one adds to.
__device__ void keep_low_bits(Shared& shared, std::uint32_t (&d)[kSums], const Problem& problem) {
  const std::uint32_t mask = (1u << problem.shift) - 1;
#pragma unroll
  for (std::uint32_t word = 0; word < kSums / 4; ++word) {
    std::uint32_t kept = shared.kept[word][threadIdx.x];
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) {
      std::uint32_t& sum = d[4 * word + e];
      const std::uint32_t low = sum & mask;
      const auto high = static_cast<std::uint32_t>(static_cast<std::int32_t>(sum) >> problem.shift);
      kept |= low << 8 * e;
      sum = 0u - low - mask * high;
    }
    shared.kept[word][threadIdx.x] = kept;
  }
}

/// After the third pass: to saturated elements.
__device__ void finish_sums(const Shared& shared, std::uint32_t (&d)[kSums], const Problem& problem) {
  const std::uint32_t first_saturated = 1u << (32 - problem.shift);
#pragma unroll
  for (std::uint32_t word = 0; word < kSums / 4; ++word) {
    const std::uint32_t kept = shared.kept[word][threadIdx.x];
#pragma unroll
    for (std::uint32_t e = 0; e < 4; ++e) {
      std::uint32_t& sum = d[4 * word + e];
      const std::uint32_t byte = kept >> 8 * e & 0xFF;
      sum = byte >= 0x80 || sum >= first_saturated ? kMaxVal : sum << problem.shift | byte;
    }
  }
}

/// Multiplies the planes of high parts. True: these alone prove every element of the CTA saturated. No checks on the
/// way if the prefilter has found that they are not.
__device__ bool multiply_high(Shared& shared, std::uint32_t (&d)[kSums], const Problem& problem,
                              const FragmentOrigin& origin, std::uint32_t warpgroup) {
  const std::uint32_t step = problem.saturated.done == nullptr ? kHighCheckEvery : kMaxStages;
  for (std::uint32_t first = 0; first < problem.num_stages; first += step) {
    tensor::multiply_stages<128>(shared, d, warpgroup, first, min(first + step, problem.num_stages));
    if (!hopper::all_true(tensor::is_saturated<1>(d, problem, origin), 1, kConsumers)) continue;
    if (threadIdx.x == 0) shared.stop = 1;  // volatile: the fetching warp polls it
    return true;
  }
  return false;
}

// Grid: one CTA per tile of kRows by kColumns elements; kTilesPerStrip tiles of rows share columns in L2.
// Work: one warp fetches stages of both operands with bulk tensor copies, a plane after the other; two warpgroups of 64
//       rows multiply and, after each plane, turn their sums into what the next one adds to.
// Memory: 4 stages of 48 KB, swizzled by the copy so that products read without bank conflicts; sums in registers, a
//         byte for each in shared memory.
template <std::uint32_t M>
__global__ void __launch_bounds__(kThreads, 1)
    karatsuba(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Problem problem,
              std::uint32_t tiles_down, std::uint32_t tiles_across) {
  extern __shared__ std::uint8_t raw_shared[];
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<std::uintptr_t>(raw_shared) + 1023) & ~std::uintptr_t{1023});
  const ResultTile tile = tensor::tile_of_cta(tiles_down, tiles_across);
  const std::uint8_t* const done = problem.saturated.done;  // the prefilter's tiles are the same
  if (done != nullptr && done[std::uint64_t{tile.row} * tiles_across + tile.column] != 0) return;
  if (threadIdx.x == 0) tensor::prepare_stages(shared);
  __syncthreads();  // barriers are ready
  const std::uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == kConsumers / 128) {
    hopper::give_registers<40>();
    if (threadIdx.x == kConsumers) tensor::fetch_stages(shared, map_a, map_b, tile, problem, 3);
    return;
  }
  hopper::take_registers<232>();
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const FragmentOrigin origin{.row = tile.row * kRows + warpgroup * 64 + warp * 16 + lane / 4,
                              .column = tile.column * kColumns + lane % 4 * 2};
  std::uint32_t d[kSums] = {};
  if (multiply_high(shared, d, problem, origin, warpgroup)) {
#pragma unroll
    for (std::uint32_t& sum : d) sum = kMaxVal;
  } else {
    const std::uint32_t stages = problem.num_stages;
    keep_saturated(shared, d, problem);
    tensor::multiply_stages<128>(shared, d, warpgroup, stages, 2 * stages);
    keep_low_bits(shared, d, problem);
    tensor::multiply_stages<128>(shared, d, warpgroup, 2 * stages, 3 * stages);
    finish_sums(shared, d, problem);
  }
  tensor::store_elements<1, false, M>(d, problem, origin);
}

template <std::uint32_t M>
void launch(const BytePlanes& a, const BytePlanes& b, const Problem& problem, cudaStream_t stream) {
  check(cudaFuncSetAttribute(karatsuba<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "karatsuba shared memory");
  const std::uint32_t down = (problem.target.num_rows + kRows - 1) / kRows;
  const std::uint32_t across = (problem.target.num_columns + kColumns - 1) / kColumns;
  karatsuba<M><<<down * across, kThreads, kSharedBytes, stream>>>(tensor::make_map(a, kRows, tensor::BoxPlanes::one),
                                                                  tensor::make_map(b, kColumns, tensor::BoxPlanes::one),
                                                                  problem, down, across);
  check_launch("karatsuba");
}

}  // namespace

void launch_mul_karatsuba(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                          const SaturatedTiles& saturated, cudaStream_t stream) {
  const std::uint64_t unit = std::uint64_t{1} << 2 * a.shift;  // of a product of high parts
  const std::uint64_t num_stages = a.stride_bytes / kDepth;
  for (std::uint64_t first = 0; first < num_stages; first += kMaxStages) {
    const Problem problem{
        .target = target,
        .first_stage = static_cast<std::uint32_t>(first),
        .num_stages = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxStages, num_stages - first)),
        .merge = first > 0,
        .shift = a.shift,
        .limit = static_cast<std::uint32_t>((kMaxVal + unit - 1) / unit),
        .saturated = saturated};
    tensor::for_stored_side(target, [&](auto side) { launch<decltype(side)::kSide>(a, b, problem, stream); });
  }
}

}  // namespace spmm::kernels
