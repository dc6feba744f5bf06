// The frame of the tensor-core kernels: one warp fetches the stages of list after list into shared memory, two
// warpgroups multiply them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/check.hpp"
#include "kernels/resident.hpp"
#include "kernels/tiles/fragment.cuh"
#include "kernels/tiles/hopper.cuh"
#include "kernels/tiles/launch.hpp"

namespace spmm::kernels::tensor {

using hopper::Barrier;

constexpr std::uint32_t kStages = 4;       // 192 KB of the 227 KB that a CTA may have
constexpr std::uint32_t kConsumers = 256;  // threads that multiply; one more warpgroup fetches
constexpr std::uint32_t kThreads = kConsumers + 128;
constexpr std::uint32_t kMaxStages = 65'536 / kTileDepth;  // of one sum: 65,536 * 255 * 255 < 2^32
constexpr std::uint32_t kTilesPerStrip = 16;               // of a full grid: rows of tiles that share columns in L2
constexpr std::uint32_t kNoTask = 0xFFFF'FFFFu;            // all lists have been fetched

struct __align__(1024) Stage {
  std::uint8_t a[kTileBytesA];
  std::uint8_t b[kTileBytesB];
};

/// A list of stages is fetched from slot to slot; what it is stands with each of its stages.
struct __align__(1024) Queue {
  Stage stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  TileTask tasks[kStages];         // with the first stage of a list
  std::uint32_t numbers[kStages];  // of the list that the stage belongs to
  volatile std::uint32_t stop;     // number of a list that needs no more stages
};

/// C tile `number` of a full grid. Its stages: all sets of a segment of kMaxStages tiles along K, one after the other.
__device__ inline TileTask full_task(const TileProduct& product, std::uint32_t number) {
  const TileGrid& grid = product.grid;
  const std::uint32_t across = grid.num_column_tiles();
  const std::uint32_t strip = number / (kTilesPerStrip * across);
  const std::uint32_t height = min(kTilesPerStrip, grid.num_row_tiles() - strip * kTilesPerStrip);
  const std::uint32_t within = number - strip * kTilesPerStrip * across;
  const std::uint32_t row_tile = strip * kTilesPerStrip + within % height;
  const std::uint32_t column_tile = within / height;
  const std::uint32_t row = row_tile * grid.row_elements();
  const std::uint32_t column = column_tile * grid.column_elements();
  const std::uint32_t first_row = row % grid.m;
  const std::uint32_t first_column = column % grid.m;
  return {.first_entry = 0,
          .num_entries = grid.num_sets() * grid.num_k_tiles(),
          .first_c_block = row / grid.m * product.num_block_columns + product.first_block_column + column / grid.m,
          .row_stride = product.num_block_columns,
          .first_row = first_row,
          .end_row = first_row + min(grid.row_elements(), grid.num_rows * grid.m - row),
          .first_column = first_column,
          .end_column = first_column + min(grid.column_elements(), grid.num_columns * grid.m - column),
          .row_tile = row_tile,
          .column_tile = column_tile};
}

/// The tiles of a stage of it.
__device__ inline TileEntry full_entry(const TileGrid& grid, const TileTask& task, std::uint32_t stage) {
  const std::uint32_t k_tiles = grid.num_k_tiles();
  const std::uint32_t segment = stage / (grid.num_sets() * kMaxStages);
  const std::uint32_t within = stage - segment * grid.num_sets() * kMaxStages;
  const std::uint32_t length = min(kMaxStages, k_tiles - segment * kMaxStages);
  const std::uint32_t set = within / length;
  const std::uint32_t k = segment * kMaxStages + within % length;
  return {.a = (set * grid.num_row_tiles() + task.row_tile) * k_tiles + k,
          .b = (set * grid.num_column_tiles() + task.column_tile) * k_tiles + k};
}

/// The flag of the tile of high bytes that holds a C tile of a full grid.
__device__ inline std::uint8_t* done_flag(const TileProduct& product, const TileTask& task) {
  const std::uint32_t planes = product.grid.planes_of_tile();
  const std::uint32_t across = (product.grid.num_columns * product.grid.m + kTileRowsB - 1) / kTileRowsB;
  return product.saturated.done + std::uint64_t{task.row_tile / planes} * across + task.column_tile / planes;
}

/// Fetches the stages of every list of the CTA, one list after the other, and goes on to the next if the consumers
/// stop one. SkipsDone: saturated tiles have no list.
/// Threads: one whole warp, of which the first lane fetches.
template <bool SkipsDone>
__device__ void produce(Queue& shared, const TileProduct& product) {
  const std::uint32_t lane = threadIdx.x % 32;
  const TileLists& lists = product.lists;
  const bool is_full = lists.tasks == nullptr;
  const std::uint32_t num_long = is_full ? 0 : *lists.num_long;
  const auto next_number = [&](std::uint32_t number) {  // of a full grid: whichever is free, since tiles end early
    if (!is_full) return number + gridDim.x;
    if (lane == 0) number = gridDim.x + atomicAdd(product.next_task, 1u);  // over all CTAs
    return __shfl_sync(~0u, number, 0);
  };
  std::uint32_t x = 0;  // stages so far
  for (std::uint32_t number = blockIdx.x; number < num_long + product.num_tasks; number = next_number(number)) {
    TileTask task;
    if (is_full) {
      task = full_task(product, number);
      if (SkipsDone && product.saturated.done != nullptr && *done_flag(product, task) != 0) continue;
    } else {
      const bool is_long = number < num_long;
      task = lists.tasks[is_long ? lists.long_tasks[number] : number - num_long];
      if (!is_long && task.num_entries > lists.long_entries) continue;  // it was among the first
    }
    TileEntry entry;
    bool stopped = false;
    for (std::uint32_t done = 0; done < task.num_entries && !stopped; ++done) {
      if (done % 32 == 0 && done + lane < task.num_entries) {
        entry = is_full ? full_entry(product.grid, task, done + lane) : lists.entries[task.first_entry + done + lane];
      }
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

/// One list as its consumers see it.
struct List {
  TileTask task;
  std::uint32_t number;
  std::uint32_t first;  // stage that it begins with
};

/// Calls body(list) for list after list until there are none left; it returns how many stages it has multiplied.
template <class Body>
__device__ void consume(Queue& shared, const Body& body) {
  std::uint32_t x = 0;                         // stages so far
  const bool arrives = threadIdx.x % 32 == 0;  // for its warp: it alone reads the number
  const auto wait_for_stage = [&] {
    shared.full[x % kStages].wait(x / kStages & 1);  // the copies have landed
    return __shfl_sync(~0u, arrives ? shared.numbers[x % kStages] : 0, 0);
  };
  std::uint32_t number = wait_for_stage();
  while (number != kNoTask) {
    const List list{.task = shared.tasks[x % kStages], .number = number, .first = x};
    __syncwarp();  // all lanes have read the task, before the first one arrives
    x += body(list);
    std::uint32_t next = wait_for_stage();
    while (next == number) {                            // stages that were on their way when the list was stopped
      if (arrives) shared.empty[x % kStages].arrive();  // may be refilled
      ++x;
      next = wait_for_stage();
    }
    number = next;
  }
}

/// Multiplies stages [first, end), which are empty again on return.
__device__ inline void multiply_stages(Queue& shared, std::uint32_t (&d)[128], std::uint32_t first, std::uint32_t end) {
  const std::uint32_t warpgroup = threadIdx.x / 128;
  const bool arrives = threadIdx.x % 32 == 0;  // for its warp
  for (std::uint32_t x = first; x < end; ++x) {
    const std::uint32_t slot = x % kStages;
    shared.full[slot].wait(x / kStages & 1);  // the copies have landed
    const Stage& stage = shared.stages[slot];
    const std::uint64_t a = hopper::operand_descriptor(stage.a + warpgroup * 64 * kTileDepth);
    const std::uint64_t b = hopper::operand_descriptor(stage.b);
    hopper::wgmma_fence();
#pragma unroll
    for (std::uint32_t k = 0; k < kTileDepth / 32; ++k) hopper::wgmma_u8(d, a + k * 2, b + k * 2);
    hopper::wgmma_commit();
    hopper::wgmma_wait<1>();                                             // the stage before is done
    if (x > first && arrives) shared.empty[(x - 1) % kStages].arrive();  // may be refilled
  }
  hopper::wgmma_wait<0>();
  if (arrives) shared.empty[(end - 1) % kStages].arrive();  // may be refilled
}

/// Whether `value` is true on all consumers.
__device__ inline bool all_agree(bool value) {
  return hopper::all_true(value, 1, kConsumers);
}

/// Ends a list early: no more of its stages are fetched.
__device__ inline void stop_list(Queue& shared, const List& list) {
  if (threadIdx.x == 0) shared.stop = list.number;  // volatile: the fetching warp polls it
}

/// The C blocks of a list.
__device__ inline CTile c_tile_of(const TileProduct& product, const TileTask& task, std::uint32_t limit) {
  const std::uint64_t elements = std::uint64_t{product.grid.m} * product.grid.m;
  return {.m = product.grid.m,
          .values = product.results.values + task.first_c_block * elements,
          .non_zero = product.results.non_zero + task.first_c_block,
          .row_stride = task.row_stride,
          .end_row = task.end_row,
          .end_column = task.end_column,
          .shift = product.shift,
          .limit = limit,
          .merge = false};
}

/// What every kernel of this kind does: body(shared, list) multiplies the stages of a list, as in consume().
/// Threads: all of the CTA.
template <class Shared, bool SkipsDone, class Body>
__device__ void run_lists(const TileProduct& product, const Body& body) {
  extern __shared__ std::uint8_t raw_shared[];
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<std::uintptr_t>(raw_shared) + 1023) & ~std::uintptr_t{1023});
  if (threadIdx.x == 0) {
    for (std::uint32_t s = 0; s < kStages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(kConsumers / 32);
    }
    shared.stop = kNoTask;
    hopper::fence_barriers();
  }
  __syncthreads();  // barriers are ready
  if (threadIdx.x >= kConsumers) {
    hopper::give_registers<40>();
    if (threadIdx.x < kConsumers + 32) produce<SkipsDone>(shared, product);
  } else {
    hopper::take_registers<232>();
    consume(shared, [&](const List& list) { return body(shared, list); });
  }
}

/// Launches as many CTAs as fit, one per multiprocessor.
template <class Shared>
void launch_lists(void (*kernel)(TileProduct), const TileProduct& product, cudaStream_t stream) {
  constexpr std::size_t kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 << 10);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "shared memory");
  if (product.next_task != nullptr) {
    check(cudaMemsetAsync(product.next_task, 0, sizeof(std::uint32_t), stream), "clear count");
  }
  const unsigned num_ctas = std::min(device_attribute(cudaDevAttrMultiProcessorCount), product.num_tasks);
  kernel<<<num_ctas, kThreads, kSharedBytes, stream>>>(product);
}

/// Sums of one plane from which on high << shift alone is saturated.
SPMM_HOST_DEVICE inline std::uint32_t limit_of_high(std::uint32_t shift) {
  const std::uint64_t unit = std::uint64_t{1} << 2 * shift;
  return static_cast<std::uint32_t>((kMaxVal + unit - 1) / unit);
}

}  // namespace spmm::kernels::tensor
