// Products of non-empty tiles on Hopper's integer tensor cores, C tile by C tile. Compiled for sm_90a alone.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/dense/hopper.cuh"
#include "kernels/dense/tensor_fragment.cuh"
#include "kernels/dense/tensor_stages.cuh"
#include "kernels/tiles/launch.hpp"

namespace spmm::kernels {
namespace {

using hopper::Barrier;
using tensor::FragmentOrigin;
using tensor::kCheckEvery;
using tensor::kConsumers;
using tensor::kMaxStages;
using tensor::kStages;
using tensor::Problem;
using tensor::Stage;

static_assert(kTileBytesA == sizeof(Stage::a) && kTileBytesB == sizeof(Stage::b) && kTileDepth == tensor::kDepth);

constexpr std::uint32_t kNoTask = 0xFFFF'FFFFu;  // all lists have been fetched

/// A list of stages is fetched from slot to slot; what it is stands with each of its stages.
struct __align__(1024) TileShared {
  Stage stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  TileTask tasks[kStages];         // with the first stage of a list
  std::uint32_t numbers[kStages];  // of the list that the stage belongs to
  volatile std::uint32_t stop;     // number of a list that needs no more stages
};

/// Fetches the stages of every list of the CTA, one list after the other, and goes on to the next if the consumers
/// stop one.
/// Threads: one whole warp, of which the first lane fetches.
__device__ void produce_tiles(TileShared& shared, const TileProduct& product) {
  const std::uint32_t lane = threadIdx.x % 32;
  const TileLists& lists = product.lists;
  const std::uint32_t num_long = *lists.num_long;
  std::uint32_t x = 0;  // stages so far
  for (std::uint32_t number = blockIdx.x; number < num_long + product.num_tasks; number += gridDim.x) {
    const bool is_long = number < num_long;
    const TileTask task = lists.tasks[is_long ? lists.long_tasks[number] : number - num_long];
    if (!is_long && task.num_entries > lists.long_entries) continue;  // it was among the first
    TileEntry entry;
    bool stopped = false;
    for (std::uint32_t done = 0; done < task.num_entries && !stopped; ++done) {
      if (done % 32 == 0 && done + lane < task.num_entries) entry = lists.entries[task.first_entry + done + lane];
      const std::uint32_t a = __shfl_sync(~0u, entry.a, done % 32);
      const std::uint32_t b = __shfl_sync(~0u, entry.b, done % 32);
      if (lane == 0) {
        const std::uint32_t slot = x % kStages;
        const std::uint32_t parity = (x / kStages + 1) & 1;  // the first round finds all stages empty
        while (!shared.empty[slot].try_wait(parity) && shared.stop != number) {  // all warps have read the stage
        }
        stopped = shared.stop == number;
        if (!stopped) {
          if (done == 0) shared.tasks[slot] = task;
          shared.numbers[slot] = number;
          shared.full[slot].arrive_expecting(sizeof(Stage));  // full once both tiles have landed
          hopper::copy_bytes(shared.stages[slot].a, product.a_tiles + a * kTileBytesA, kTileBytesA, shared.full[slot]);
          hopper::copy_bytes(shared.stages[slot].b, product.b_tiles + b * kTileBytesB, kTileBytesB, shared.full[slot]);
        }
      }
      stopped = __shfl_sync(~0u, stopped ? 1 : 0, 0) != 0;
      if (!stopped) ++x;
    }
  }
  if (lane != 0) return;
  shared.empty[x % kStages].wait((x / kStages + 1) & 1);  // all warps have read the stage
  shared.numbers[x % kStages] = kNoTask;
  shared.full[x % kStages].arrive();  // nothing is copied
}

/// What the consumers know of one list.
struct ListProgress {
  std::uint32_t number;  // of the list
  std::uint32_t first;   // stage that it begins with
};

/// Multiplies a list of stages and writes its C blocks; ends early if all elements are saturated. Returns how many
/// stages were multiplied.
template <std::uint32_t Planes, std::uint32_t M>
__device__ std::uint32_t consume_list(TileShared& shared, const TileTask& task, const ListProgress& list,
                                      const TileProduct& product, const FragmentOrigin& origin,
                                      std::uint32_t warpgroup) {
  const std::uint64_t m = product.m;
  Problem problem{.target = {.num_rows = task.num_rows,
                             .num_columns = task.num_columns,
                             .m = product.m,
                             .first_block_column = 0,
                             .num_block_columns = task.row_stride,
                             .results = {.values = product.results.values + task.first_c_block * m * m,
                                         .non_zero = product.results.non_zero + task.first_c_block}},
                  .first_stage = 0,
                  .num_stages = task.num_entries,
                  .merge = false,
                  .shift = product.shift,
                  .limit = kMaxVal,
                  .saturated = {}};
  std::uint32_t done = 0;
  while (true) {
    std::uint32_t d[128] = {};
    bool saturated = false;
    for (const std::uint32_t end = min(done + kMaxStages, task.num_entries); done < end && !saturated;) {
      const std::uint32_t next = min(done + kCheckEvery, end);
      tensor::multiply_stages<32>(shared, d, warpgroup, list.first + done, list.first + next);
      done = next;
      if (done == task.num_entries) break;
      saturated = hopper::all_true(tensor::is_saturated<Planes>(d, problem, origin), 1, kConsumers);
    }
    if (saturated && threadIdx.x == 0) shared.stop = list.number;  // volatile: the fetching warp polls it
    if (M != 0 || product.m % 2 == 0) {
      tensor::store_even<Planes, M>(d, problem, origin);
    } else {
      tensor::store<Planes, false>(d, problem, origin);
    }
    if (saturated || done == task.num_entries) return done;
    problem.merge = true;
  }
}

/// Multiplies list after list until there are none left.
template <std::uint32_t Planes, std::uint32_t M>
__device__ void consume_tiles(TileShared& shared, const TileProduct& product, std::uint32_t warpgroup) {
  const std::uint32_t warp = threadIdx.x % 128 / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const FragmentOrigin origin{.row = (warpgroup * 64 + warp * 16) / Planes + lane / 4, .column = lane % 4 * 2};
  std::uint32_t x = 0;  // stages so far
  const auto wait_for_stage = [&] {
    shared.full[x % kStages].wait(x / kStages & 1);  // the copies have landed
    return shared.numbers[x % kStages];
  };
  std::uint32_t number = wait_for_stage();
  while (number != kNoTask) {
    const TileTask task = shared.tasks[x % kStages];
    const std::uint32_t done =
        consume_list<Planes, M>(shared, task, {.number = number, .first = x}, product, origin, warpgroup);
    x += done;
    std::uint32_t next = wait_for_stage();
    while (next == number) {                              // stages that were on their way when the list was stopped
      __syncwarp();                                       // all lanes have read the number
      if (lane == 0) shared.empty[x % kStages].arrive();  // may be refilled
      ++x;
      next = wait_for_stage();
    }
    number = next;
  }
}

// Grid: as many CTAs as fit, one per multiprocessor; each takes every gridDim.x-th list, long ones first.
// Work: one warp fetches tiles of both operands and runs ahead into the next list while results are written; two
//       warpgroups of 64 plane rows multiply.
// Memory: 4 stages of 48 KB, copied as they lie; sums in registers.
template <std::uint32_t Planes, std::uint32_t M>
__global__ void __launch_bounds__(tensor::kThreads, 1) tile_tensor(const __grid_constant__ TileProduct product) {
  extern __shared__ std::uint8_t raw_shared[];
  TileShared& shared =
      *reinterpret_cast<TileShared*>((reinterpret_cast<std::uintptr_t>(raw_shared) + 1023) & ~std::uintptr_t{1023});
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < kStages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(kConsumers / 32);
    }
    shared.stop = kNoTask;
    hopper::fence_barriers();
  }
  __syncthreads();  // barriers are ready
  const std::uint32_t warpgroup = threadIdx.x / 128;
  if (warpgroup == kConsumers / 128) {
    hopper::give_registers<40>();
    if (threadIdx.x < kConsumers + 32) produce_tiles(shared, product);
  } else {
    hopper::take_registers<232>();
    consume_tiles<Planes, M>(shared, product, warpgroup);
  }
}

constexpr std::size_t kSharedBytes = sizeof(TileShared) + 1024;

unsigned num_multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
  return static_cast<unsigned>(count);
}

template <std::uint32_t Planes, std::uint32_t M>
void launch(const TileProduct& product, cudaStream_t stream) {
  check(cudaFuncSetAttribute(tile_tensor<Planes, M>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "tile_tensor shared memory");
  tile_tensor<Planes, M>
      <<<std::min(num_multiprocessors(), product.num_tasks), tensor::kThreads, kSharedBytes, stream>>>(product);
}

}  // namespace

void launch_mul_tile_tensor(const TileProduct& product, cudaStream_t stream) {
  if (product.num_tasks == 0) return;
  for_block_side<4, 8>(product.m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if (product.num_planes == 2) {
      launch<2, kM>(product, stream);
    } else {
      launch<1, kM == 4 ? 0 : kM>(product, stream);  // places of 128 elements in blocks of 4 do not fit registers
    }
  });
  check_launch("tile_tensor");
}

}  // namespace spmm::kernels
