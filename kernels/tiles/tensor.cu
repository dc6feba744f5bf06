// Products of tiles on Hopper's integer tensor cores, C tile by C tile: exact u16 x u16 through byte planes, saturated
// u32 C blocks. Compiled for sm_90a alone.
#include "kernels/block_side.cuh"
#include "kernels/tiles/stages.cuh"

namespace spmm::kernels {
namespace {

using tensor::CTile;
using tensor::FragmentOrigin;
using tensor::kMaxStages;
using tensor::List;
using tensor::Queue;

constexpr std::uint32_t kCheckEvery = 16;  // stages between checks for a saturated tile: 2,048 terms, 3 % of the time

/// Multiplies a list of stages and writes its C blocks; ends early if all elements are saturated. Returns how many
/// stages were multiplied.
template <std::uint32_t Planes, std::uint32_t M>
__device__ std::uint32_t multiply_list(Queue& shared, const List& list, const TileProduct& product) {
  const std::uint32_t num_stages = list.task.num_entries;
  const FragmentOrigin origin = tensor::origin_in<Planes, M>(list.task);
  CTile tile = tensor::c_tile_of(product, list.task, kMaxVal);
  std::uint32_t done = 0;
  while (true) {
    std::uint32_t d[128] = {};
    bool saturated = false;
    for (const std::uint32_t end = min(done + kMaxStages, num_stages); done < end && !saturated;) {
      const std::uint32_t next = min(done + kCheckEvery, end);
      tensor::multiply_stages(shared, d, list.first + done, list.first + next);
      done = next;
      if (done == num_stages) break;
      saturated = tensor::all_agree(tensor::is_saturated<Planes>(d, tile, origin));
    }
    if (saturated) tensor::stop_list(shared, list);
    tensor::store<Planes, M>(d, tile, origin);
    if (saturated || done == num_stages) return done;
    tile.merge = true;
  }
}

/// Multiplies a list of high bytes: C blocks are written only if all elements are saturated; ends early if their sums
/// grow too slowly for that.
template <std::uint32_t M>
__device__ std::uint32_t multiply_high(Queue& shared, const List& list, const TileProduct& product) {
  const std::uint32_t num_stages = min(kMaxStages, list.task.num_entries);
  const FragmentOrigin origin = tensor::origin_in<1, M>(list.task);
  CTile tile = tensor::c_tile_of(product, list.task, tensor::limit_of_high(product.shift));
  std::uint32_t d[128] = {};
  std::uint32_t done = 0;
  bool saturated = false;
  for (bool goes_on = true; goes_on && done < num_stages;) {
    const std::uint32_t next = min(done + kCheckEvery, num_stages);
    tensor::multiply_stages(shared, d, list.first + done, list.first + next);
    done = next;
    saturated = tensor::all_agree(tensor::is_saturated<1>(d, tile, origin));
    goes_on = !saturated && tensor::all_agree(tensor::may_saturate(d, tile, origin, done, num_stages));
  }
  tensor::stop_list(shared, list);
  if (threadIdx.x == 0) {
    *tensor::done_flag(product, list.task) = saturated ? 1 : 0;
    if (!saturated) atomicAdd(product.saturated.num_left, 1u);  // counts over all CTAs
  }
  if (saturated) {
#pragma unroll
    for (std::uint32_t& sum : d) sum = kMaxVal;
    tensor::store<1, M>(d, tile, origin);
  }
  return done;
}

// Grid: as many CTAs as fit, one per multiprocessor; each takes every gridDim.x-th list, long ones first, or tile after
//       tile of a full grid.
// Work: one warp fetches tiles of both operands and runs ahead into the next list while results are written; two
//       warpgroups of 64 plane rows multiply. HighBytes: multiply_high, of a full grid.
// Memory: 4 stages of 48 KB, copied as they lie; sums in registers.
template <std::uint32_t Planes, bool HighBytes, std::uint32_t M>
__global__ void __launch_bounds__(tensor::kThreads, 1) tile_tensor(const __grid_constant__ TileProduct product) {
  tensor::run_lists<Queue, !HighBytes>(product, [&](Queue& shared, const List& list) {
    if constexpr (HighBytes) {
      return multiply_high<M>(shared, list, product);
    } else {
      return multiply_list<Planes, M>(shared, list, product);
    }
  });
}

}  // namespace

bool has_dense_tensor(int major, int minor) {
  return major == 9 && minor == 0;
}

void launch_mul_high_bytes(const TileProduct& product, cudaStream_t stream) {
  check(cudaMemsetAsync(product.saturated.num_left, 0, sizeof(std::uint32_t), stream), "clear count");
  if (product.num_tasks == 0) return;
  for_block_side<4, 8>(product.grid.m, [&](auto side) {
    tensor::launch_lists<Queue>(tile_tensor<1, true, decltype(side)::value>, product, stream);
  });
  check_launch("tile_tensor");
}

void launch_mul_tiles(const TileProduct& product, cudaStream_t stream) {
  if (product.num_tasks == 0) return;
  for_block_side<4, 8>(product.grid.m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if (product.grid.num_planes == 3) {
      launch_mul_karatsuba(product, stream);
    } else if (product.grid.num_planes == 2) {
      tensor::launch_lists<Queue>(tile_tensor<2, false, kM>, product, stream);
    } else {  // places of 128 elements in blocks of 4 do not fit registers
      tensor::launch_lists<Queue>(tile_tensor < 1, false, kM == 4 ? 0 : kM >, product, stream);
    }
  });
  check_launch("tile_tensor");
}

}  // namespace spmm::kernels
