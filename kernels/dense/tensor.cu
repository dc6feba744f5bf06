// Dense product on Hopper's integer tensor cores: exact u16 x u16 through byte planes, saturated u32 C blocks. Compiled
// for sm_90a alone.
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
using tensor::BoxPlanes;
using tensor::FragmentOrigin;
using tensor::kCheckEvery;
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

struct __align__(1024) Shared {
  Stage stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  volatile std::uint32_t stop;
};

/// Multiplies all stages, or stops early. True: every element of the CTA is saturated. The prefilter also stops if
/// the sums grow too slowly for that.
template <std::uint32_t Planes, bool Prefilter>
__device__ bool consume(Shared& shared, const Problem& problem, const FragmentOrigin& origin, std::uint32_t (&d)[128],
                        std::uint32_t warpgroup) {
  for (std::uint32_t first = 0; first < problem.num_stages; first += kCheckEvery) {
    const std::uint32_t end = min(first + kCheckEvery, problem.num_stages);
    tensor::multiply_stages<128>(shared, d, warpgroup, first, end);
    const bool saturated = hopper::all_true(tensor::is_saturated<Planes>(d, problem, origin), 1, kConsumers);
    if (saturated || (Prefilter && !hopper::all_true(tensor::may_saturate(d, problem, origin, end), 1, kConsumers))) {
      if (threadIdx.x == 0) shared.stop = 1;  // volatile: the fetching warp polls it
      return saturated;
    }
  }
  return false;
}

// Grid: one CTA per tile of kRows by kColumns plane rows; kTilesPerStrip tiles of rows share columns in L2.
// Work: one warp fetches stages of both operands with bulk tensor copies; two warpgroups of 64 plane rows multiply.
//       Prefilter: one plane, the high bytes of wider elements; fills the tiles that these alone prove saturated.
//       M: how elements are written (store_elements).
// Memory: 4 stages of 48 KB, swizzled by the copy so that products read without bank conflicts; sums in registers.
template <std::uint32_t Planes, bool Prefilter, std::uint32_t M>
__global__ void __launch_bounds__(kThreads, 1)
    dense_tensor(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Problem problem,
                 std::uint32_t tiles_down, std::uint32_t tiles_across) {
  extern __shared__ std::uint8_t raw_shared[];
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<std::uintptr_t>(raw_shared) + 1023) & ~std::uintptr_t{1023});
  const ResultTile tile = tensor::tile_of_cta(tiles_down, tiles_across);
  std::uint8_t* done = problem.saturated.done;  // of the prefilter's tile that holds this one
  if (done != nullptr) {
    const std::uint32_t prefilter_across = (problem.target.num_columns + kColumns - 1) / kColumns;
    done += std::uint64_t{tile.row / Planes} * prefilter_across + tile.column / Planes;
    if (!Prefilter && *done != 0) return;
  }
  if (threadIdx.x == 0) tensor::prepare_stages(shared);
  __syncthreads();  // barriers are ready
  const std::uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == kConsumers / 128) {
    hopper::give_registers<40>();
    if (threadIdx.x == kConsumers) tensor::fetch_stages(shared, map_a, map_b, tile, problem, 1);
  } else {
    hopper::take_registers<232>();
    const std::uint32_t warp = threadIdx.x % 128 / 32;
    const std::uint32_t lane = threadIdx.x % 32;
    const FragmentOrigin origin{.row = (tile.row * kRows + warpgroup * 64 + warp * 16) / Planes + lane / 4,
                                .column = tile.column * kColumns / Planes + lane % 4 * 2};
    std::uint32_t d[128] = {};
    const bool saturated = consume<Planes, Prefilter>(shared, problem, origin, d, warpgroup);
    if (Prefilter && threadIdx.x == 0) {
      *done = saturated ? 1 : 0;
      if (!saturated) atomicAdd(problem.saturated.num_left, 1u);  // counts over all CTAs
    }
    if (!Prefilter || saturated) tensor::store_elements<Planes, Prefilter, M>(d, problem, origin);
  }
}

constexpr std::size_t kSharedBytes = sizeof(Shared) + 1024;

template <std::uint32_t Planes, bool Prefilter, std::uint32_t M>
void launch_side(const BytePlanes& a, const BytePlanes& b, const Problem& problem, cudaStream_t stream) {
  constexpr auto kKernel = dense_tensor<Planes, Prefilter, M>;
  check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "dense_tensor shared memory");
  const std::uint32_t down = (problem.target.num_rows * Planes + kRows - 1) / kRows;
  const std::uint32_t across = (problem.target.num_columns * Planes + kColumns - 1) / kColumns;
  constexpr BoxPlanes kBoxes = Prefilter ? BoxPlanes::one : BoxPlanes::all;
  kKernel<<<down * across, kThreads, kSharedBytes, stream>>>(
      tensor::make_map(a, kRows, kBoxes), tensor::make_map(b, kColumns, kBoxes), problem, down, across);
  check_launch("dense_tensor");
}

template <std::uint32_t Planes, bool Prefilter>
void launch(const BytePlanes& a, const BytePlanes& b, const Problem& problem, cudaStream_t stream) {
  tensor::for_stored_side(
      problem.target, [&](auto side) { launch_side<Planes, Prefilter, decltype(side)::kSide>(a, b, problem, stream); });
}

}  // namespace

bool has_dense_tensor(int major, int minor) {
  return major == 9 && minor == 0;
}

std::uint64_t num_prefilter_tiles(std::uint32_t num_rows, std::uint32_t num_columns) {
  return ((std::uint64_t{num_rows} + kRows - 1) / kRows) * ((std::uint64_t{num_columns} + kColumns - 1) / kColumns);
}

void launch_saturation_prefilter(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                                 const SaturatedTiles& saturated, cudaStream_t stream) {
  check(cudaMemsetAsync(saturated.num_left, 0, sizeof(std::uint32_t), stream), "clear count");
  const std::uint64_t unit = std::uint64_t{1} << (a.shift + b.shift);  // of a product of high bytes
  const Problem problem{
      .target = target,
      .first_stage = 0,
      .num_stages = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxStages, a.stride_bytes / kDepth)),
      .merge = false,
      .shift = a.shift,
      .limit = static_cast<std::uint32_t>((kMaxVal + unit - 1) / unit),
      .saturated = saturated};
  launch<1, true>(a, b, problem, stream);
}

void launch_mul_dense_tensor(const BytePlanes& a, const BytePlanes& b, const DenseTarget& target,
                             const SaturatedTiles& saturated, cudaStream_t stream) {
  if (a.num_planes == 3) {
    launch_mul_karatsuba(a, b, target, saturated, stream);
    return;
  }
  const std::uint64_t num_stages = a.stride_bytes / kDepth;
  for (std::uint64_t first = 0; first < num_stages; first += kMaxStages) {
    const Problem problem{
        .target = target,
        .first_stage = static_cast<std::uint32_t>(first),
        .num_stages = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxStages, num_stages - first)),
        .merge = first > 0,
        .shift = a.shift,
        .limit = kMaxVal,
        .saturated = saturated};
    if (a.num_planes == 2) {
      launch<2, false>(a, b, problem, stream);
    } else {
      launch<1, false>(a, b, problem, stream);
    }
  }
}

}  // namespace spmm::kernels
