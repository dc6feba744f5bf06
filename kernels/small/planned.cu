// Small blocks whose pattern is known: the places of all pairs, and sums of their products in shared memory.
#include <algorithm>
#include <cmath>

#include "kernels/block_side.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/row_segments.cuh"
#include "kernels/small/launch.hpp"
#include "kernels/small/sums.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kPlannedThreads = 256;  // 128 and 512 take up to 1.3 times as long
constexpr std::uint32_t kPlannedWarps = kPlannedThreads / 32;

/// A block of A with the C blocks of a chunk.
struct PlannedSlot {
  std::uint32_t a;        // its block
  std::uint32_t b_first;  // blocks of B
  std::uint32_t b_end;
  std::uint32_t c_first;  // C blocks
  std::uint32_t c_end;
  std::uint32_t base;  // C blocks before the task
};

__device__ inline PlannedSlot slot_at(const PlannedPattern& pattern, std::uint32_t number) {
  const PlannedRow* const rows = pattern.rows;
  const CompressedView& a = pattern.product.a.index;
  const CompressedView& b = pattern.product.b.index;
  const auto is_before = [=](std::uint32_t x) { return rows[x].first_slot <= number; };
  const std::uint32_t at = partition_point(1u, a.num_rows, is_before) - 1;
  const PlannedRow row = rows[at];
  const std::uint32_t row_end = rows[at + 1].first_block;
  const std::uint32_t first = a.offsets[at];
  const std::uint32_t num_blocks = a.offsets[at + 1] - first;
  const std::uint32_t chunk = (number - row.first_slot) / num_blocks;
  PlannedSlot slot{.a = first + (number - row.first_slot) % num_blocks,
                   .b_first = 0,
                   .b_end = 0,
                   .c_first = row.first_block + chunk * row.chunk_blocks,
                   .c_end = row_end,
                   .base = row.base + chunk * row.chunk_blocks};
  const std::uint32_t b_row = pattern.product.b_row_index[slot.a];
  if (b_row == kNoRow) return slot;
  slot.b_first = b.offsets[b_row];
  slot.b_end = b.offsets[b_row + 1];
  if (row.chunk_blocks == 0) return slot;
  const auto find_column = [&](std::uint32_t c_block) {
    const std::uint32_t column = pattern.heads[2 * std::size_t{c_block} + 1];
    return static_cast<std::uint32_t>(lower_bound(b.columns, slot.b_first, slot.b_end, column));
  };
  const bool is_last = row_end - slot.c_first <= row.chunk_blocks;
  const std::uint32_t b_end = is_last ? slot.b_end : find_column(slot.c_first + row.chunk_blocks);
  if (chunk != 0) slot.b_first = find_column(slot.c_first);
  slot.b_end = b_end;
  if (!is_last) slot.c_end = slot.c_first + row.chunk_blocks;
  return slot;
}

// Grid: a warp per slot.
// Work: a lane per pair looks its C block up.
// Memory: columns of B and places contiguous; heads of C by binary search in the row.
__global__ void __launch_bounds__(kItemThreads)
    place_planned_pairs(PlannedPattern pattern, const std::uint64_t* sums, PlannedPairs to) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t x = this_warp(); x < pattern.num_slots; x += gridDim.x * kItemWarps) {
    const PlannedSlot slot = slot_at(pattern, x);
    if (slot.b_first == slot.b_end) continue;
    const auto pair = static_cast<std::uint32_t>(sums[x]);
    const auto segment = static_cast<std::uint32_t>(sums[x] >> 32);
    const std::uint32_t end = pair + (slot.b_end - slot.b_first);
    if (lane == 0) {
      to.segments[segment] = {.a = pattern.product.a.number(slot.a), .b_shift = slot.b_first - pair};
      atomicOr(&to.words[pair / 32].starts, 1u << pair % 32);  // warps share words
    }
    for (std::uint32_t w = pair / 32 + (pair % 32 != 0 ? 1 : 0) + lane; w <= (end - 1) / 32; w += 32) {
      to.words[w].first = segment - (w * 32 == pair ? 1 : 0);
    }
    for (std::uint32_t p = pair + lane; p < end; p += 32) {
      const std::uint32_t column = pattern.product.b.index.columns[slot.b_first + (p - pair)];
      to.places[p] =
          static_cast<std::uint16_t>(find_head(pattern.heads, slot.c_first, slot.c_end, 1, column) - slot.base);
    }
  }
}

// Grid: a CTA per task.
// Work: a lane per pair adds the product to its C block in shared memory; then all write the C blocks of the task.
// Memory: places, words, and blocks of C contiguous; blocks of B contiguous within a segment; a block of A for each
//         segment.
template <std::uint32_t M, bool Fits>
__global__ void __launch_bounds__(kPlannedThreads)
    mul_planned_pairs(PlannedPairs pairs, PlannedValues values, std::uint32_t least, std::uint32_t most) {
  constexpr std::uint32_t kAtOnce = M == 1 ? 4 : M == 2 ? 2 : 1;  // twice as many: slower by up to 1.4
  extern __shared__ __align__(16) std::uint32_t region[];
  const std::uint32_t largest = __ldg(values.largest);
  if (largest < least || largest > most) return;
  const PlannedTask task = pairs.tasks[blockIdx.x];
  const PlannedTask next = pairs.tasks[blockIdx.x + 1];
  const std::uint32_t num_blocks = next.first_block - task.first_block;
  const std::uint32_t num_words = num_blocks * M * M;
  const SmallSums<M> sums{.sums = region, .saturated = region + pairs.task_blocks * M * M};
  for (std::uint32_t x = threadIdx.x; x < num_words; x += kPlannedThreads) region[x] = 0;
  if constexpr (!Fits) {
    for (std::uint32_t x = threadIdx.x; x <= num_words / 32; x += kPlannedThreads) sums.saturated[x] = 0;
  }
  __syncthreads();  // sums are clear
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t end = (next.first_pair + 31) / 32;
#pragma unroll 1
  for (std::uint32_t w = task.first_pair / 32 + threadIdx.x / 32 * kAtOnce; w < end; w += kPlannedWarps * kAtOnce) {
    std::uint32_t places[kAtOnce];
    PlannedSegment segments[kAtOnce];
    SmallBlock<M> a[kAtOnce];
    SmallBlock<M> b[kAtOnce];
    bool is_pair[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      const std::uint32_t pair = (w + u) * 32 + lane;
      is_pair[u] = w + u < end && pair >= task.first_pair && pair < next.first_pair;
      if (!is_pair[u]) continue;
      places[u] = __ldcs(pairs.places + pair);
      const auto word = __ldcs(reinterpret_cast<const uint2*>(pairs.words) + (w + u));
      const auto segment =
          __ldg(reinterpret_cast<const uint2*>(pairs.segments) + (word.x + __popc(word.y & ((2u << lane) - 1))));
      segments[u] = {.a = segment.x, .b_shift = segment.y + pair};
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (!is_pair[u]) continue;
      a[u] = load_small_block<M>(values.a, segments[u].a);
      b[u] = load_small_block<M>(values.b, segments[u].b_shift);
    }
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (is_pair[u]) sums.template add<Fits>(places[u], a[u], b[u]);
    }
  }
  __syncthreads();  // all products are added
  std::uint32_t* const c = values.c + std::size_t{task.first_block} * M * M;
  for (std::uint32_t x = threadIdx.x; x < num_words; x += kPlannedThreads) {
    __stcs(c + x, sums.template value<Fits>(x / (M * M), x % (M * M)));
  }
}

template <std::uint32_t M, bool Fits>
void launch(const PlannedPairs& pairs, const PlannedValues& values, std::uint32_t least, std::uint32_t most,
            cudaStream_t stream) {
  const std::uint32_t words = pairs.task_blocks * M * M;
  const std::uint32_t shared_bytes = (words + words / 32 + 1) * 4;
  const auto kernel = mul_planned_pairs<M, Fits>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "mul_planned_pairs shared memory");
  kernel<<<pairs.num_tasks, kPlannedThreads, shared_bytes, stream>>>(pairs, values, least, most);
}

}  // namespace

void launch_planned_rows(const PlannedPattern& pattern, std::uint32_t* first_blocks, cudaStream_t stream) {
  const CompressedView a = pattern.product.a.index;
  launch_items(a.num_rows + std::uint64_t{1}, stream, "find_planned_rows", [=] __device__(std::uint64_t row) {
    const std::uint32_t all = pattern.num_blocks;
    first_blocks[row] = row == a.num_rows ? all : find_head(pattern.heads, 0, all, 0, a.rows[row]);
  });
}

std::size_t planned_sums_workspace_bytes(std::uint32_t num_slots) {
  return Scan<StoredRow>::workspace_bytes(num_slots + std::uint64_t{1});
}

void launch_planned_sums(const PlannedPattern& pattern, std::uint32_t* counts, std::uint64_t* sums, Workspace work,
                         cudaStream_t stream) {
  launch_items(pattern.num_slots, stream, "count_planned_pairs", [=] __device__(std::uint64_t x) {
    const PlannedSlot slot = slot_at(pattern, static_cast<std::uint32_t>(x));
    counts[x] = slot.b_end - slot.b_first;
  });
  Scan<StoredRow>::launch({.counts = counts, .count = pattern.num_slots, .stride = 1},
                          pattern.num_slots + std::uint64_t{1}, sums, work, stream, "pairs before slots");
}

void launch_planned_pairs(const PlannedPattern& pattern, const std::uint64_t* sums, const PlannedPairs& to,
                          cudaStream_t stream) {
  place_planned_pairs<<<warp_grid(pattern.num_slots), kItemThreads, 0, stream>>>(pattern, sums, to);
  check_launch("place_planned_pairs");
  PlannedTask* const tasks = to.tasks;
  launch_items(to.num_tasks + std::uint64_t{1}, stream, "place_planned_tasks", [=] __device__(std::uint64_t t) {
    tasks[t].first_pair = static_cast<std::uint32_t>(sums[tasks[t].first_pair]);
  });
}

void launch_mul_planned_pairs(const PlannedPairs& pairs, const PlannedValues& values, cudaStream_t stream) {
  constexpr std::uint32_t kAny = 0xFFFF;
  const double terms = static_cast<double>(values.max_row_blocks) * values.m;
  const auto fits = static_cast<std::uint32_t>(std::min(std::sqrt(kMaxVal / terms), double{kAny}));
  for_block_side<1, 2, 3, 4>(values.m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if constexpr (kM != 0) {
      launch<kM, true>(pairs, values, 0, fits, stream);
      if (fits < kAny) launch<kM, false>(pairs, values, fits + 1, kAny, stream);
    }
  });
  check_launch("mul_planned_pairs");
}

}  // namespace spmm::kernels
