// What a launch of small-blocks works with: chunks of rows, the segments of B that fall into them, and where a task's
// records go.
#pragma once

#include "kernels/blocks/record_output.cuh"
#include "kernels/small/segments.cuh"
#include "kernels/small/tasks.cuh"

namespace spmm::kernels {

constexpr std::uint32_t kStagedRecords = 64;  // of a warp

/// Shared memory in addition to the sums.
struct SmallLists {
  static constexpr std::uint32_t kWarps = kSmallWarps;
  static constexpr std::uint32_t kThreads = kWarps * 32;
  union {
    SmallSegment segments[kThreads];        // of a CTA's round, or 32 for each warp
    uint2 staged[kWarps * kStagedRecords];  // records on their way out: column, slot
  };
  SegmentCounts of_warp[kWarps];
  std::uint32_t counts[kThreads];  // records of each warp, or of each row of a task
  std::uint32_t ticket;
  std::uint32_t first;  // record number of the task's first record
};

/// A chunk of a row.
struct SmallChunk {
  std::uint32_t row;
  std::uint32_t first_column;
  std::uint32_t num_columns;
  bool is_whole;         // all pairs of the row
  std::uint32_t number;  // of a chunk that launch.splits has; else kNoRow
};

/// What a segment tells of its block of A: m = 1: the element; else: its number.
__device__ inline std::uint32_t name_of_a(const RowProduct& product, std::uint32_t p) {
  return product.m == 1 ? product.a.values[p] : p;
}

template <std::uint32_t M>
__device__ inline SmallBlock<M> block_of_a(const SmallLaunch& launch, std::uint32_t name) {
  if constexpr (M == 1) return {{name}};
  return load_small_block<M>(launch.product.a.values, name);
}

/// The blocks of B's row of block p of A that fall into a chunk.
__device__ inline SmallSegment segment_of(const SmallLaunch& launch, const SmallChunk& chunk, std::uint32_t p) {
  const std::uint32_t b_row = launch.product.b_row_index[p];
  if (b_row == kNoRow) return {};
  const CompressedView& b = launch.product.b.index;
  const BSegment own = chunk.is_whole ? BSegment{b.offsets[b_row], b.offsets[b_row + 1]}
                       : chunk.number != kNoRow
                           ? segment_of_chunk(launch.splits, b_row, chunk.number)
                           : find_segment(b, b_row, chunk.first_column, chunk.first_column + (chunk.num_columns - 1));
  return {.first = own.first, .end = own.end, .a = name_of_a(launch.product, p), .before = 0};
}

/// Calls use(column, a, b_block) for every pair of a chunk, a lane each.
/// Threads: all of the CTA; a warp may return before others.
template <std::uint32_t M, class Use>
__device__ void for_pairs_of_chunk(const SmallLaunch& launch, const SmallChunk& chunk, bool with_values,
                                   SmallLists& lists, const Use& use) {
  const CompressedView& a = launch.product.a.index;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t end = a.offsets[chunk.row + 1];
#pragma unroll 1
  for (std::uint32_t first = a.offsets[chunk.row]; first < end; first += SmallLists::kThreads) {
    SmallSegment segment{};
    if (threadIdx.x < end - first) segment = segment_of(launch, chunk, first + threadIdx.x);
    const SmallList list = list_of_cta(segment, lists.segments, lists.of_warp);
    const std::uint64_t tiles = list.num_tiles();
    walk_tiles<M>(list, static_cast<std::uint32_t>(tiles * warp / SmallLists::kWarps),
                  static_cast<std::uint32_t>(tiles * (warp + 1) / SmallLists::kWarps), launch.product.b, with_values,
                  use);
  }
}

/// Takes the place of a task's records: writes lists.first and, in order, waits for the tasks before.
/// Threads: the first warp.
__device__ inline void place_task(const SmallLaunch& launch, SmallLists& lists, std::uint32_t count) {
  if (launch.scratch.arrivals.records != nullptr) {
    if (threadIdx.x != 0) return;
    lists.first = atomicAdd(launch.scratch.arrivals.num_records, count);  // tasks come in any order
    launch.scratch.arrivals.tasks[lists.ticket] = {.first = lists.first, .count = count};
    return;
  }
  const std::uint32_t before = records_before(launch.out, lists.ticket, count);
  if (threadIdx.x != 0) return;
  lists.first = before;
  if (lists.ticket + 1 == *launch.num_tasks()) *launch.out.num_blocks = before + count;
}

/// Where a task writes its records, from number `first` on.
template <std::uint32_t M>
__device__ inline RecordWords<std::uint32_t> task_records(const SmallLaunch& launch, std::uint64_t first) {
  const bool in_any_order = launch.scratch.arrivals.records != nullptr;
  return {in_any_order ? packed_records(launch.scratch.arrivals.records, M) : launch.out.to, first};
}

/// Sums up lists.counts[0, num_counts) and places the task.
/// Shapes: afterwards counts[x] = records of the task before x.
/// Threads: all of the CTA; has barriers.
__device__ inline void find_task_offset(const SmallLaunch& launch, SmallLists& lists, std::uint32_t num_counts) {
  __syncthreads();  // counts are complete
  if (threadIdx.x < 32) {
    const std::uint32_t total = scan_by_warp(
        0, num_counts, 0, [&](std::uint32_t x) { return lists.counts[x]; },
        [&](std::uint32_t x, std::uint32_t sum) { lists.counts[x] = sum; });
    place_task(launch, lists, total);
  }
  __syncthreads();  // the place is known
}

}  // namespace spmm::kernels
