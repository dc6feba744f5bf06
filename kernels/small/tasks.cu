// Rows of a panel -> tasks of small-blocks, in result order: how many each row opens, where they begin, what they are.
#include "kernels/small/tasks.cuh"

#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per row of the panel and one more.
// Work: a row writes the tasks that open at it, the last thread the row behind the panel.
// Memory: contiguous reads of the offsets, contiguous writes.
__global__ void write_tasks(const std::uint32_t* task_offsets, std::uint32_t row_begin, std::uint32_t num_rows,
                            SmallTask* tasks) {
  for_each_item(std::uint64_t{num_rows} + 1, [=](std::uint64_t x) {
    const auto row = static_cast<std::uint32_t>(row_begin + x);
    const std::uint32_t first = task_offsets[x];
    const std::uint32_t end = x == num_rows ? first + 1 : task_offsets[x + 1];
    for (std::uint32_t u = first; u < end; ++u) tasks[u] = {.row = row, .chunk = u - first};
  });
}

// Grid: one warp per row of the panel.
// Work: the columns between which the pairs of a ranked row lie: B's rows are sorted, their ends tell.
// Memory: three scattered words per block of A.
__global__ void find_spans(TasksOfRow tasks, SmallBlocksProduct product, CBlocksView c_blocks, ColumnSpan* spans) {
  const std::uint32_t lane = threadIdx.x % 32;
  for_each_item(std::uint64_t{tasks.num_rows} * 32, [&](std::uint64_t item) {
    const auto x = static_cast<std::uint32_t>(item / 32);
    if (tasks.kind(x) != SmallRow::ranked) return;
    const CompressedView& b = product.b.index;
    const std::uint32_t row = tasks.row_begin + x;
    std::uint32_t first = kNoRow;
    std::uint32_t last = 0;
    for (std::uint32_t p = tasks.a.offsets[row] + lane; p < tasks.a.offsets[row + 1]; p += 32) {
      const std::uint32_t b_row = product.b_row_index[p];
      if (b_row == kNoRow) continue;
      first = min(first, b.columns[b.offsets[b_row]]);
      last = max(last, b.columns[b.offsets[b_row + 1] - 1]);
    }
    first = max(warp_min(first), c_blocks.column_begin);
    const std::uint64_t end =
        min(std::uint64_t{warp_max(last)} + 1, std::uint64_t{c_blocks.column_begin} + c_blocks.num_columns);
    if (lane == 0) spans[x] = {.first = first, .count = end > first ? static_cast<std::uint32_t>(end - first) : 0};
  });
}

// Grid: as many CTAs as fit the device, a task after the other each.
// Work: copies a task's records to their place.
// Memory: contiguous reads and writes of 4 bytes per thread, four in flight.
__global__ void __launch_bounds__(kItemThreads)
    order_tasks(SmallArrivals arrivals, const std::uint32_t* num_tasks, std::uint32_t record_words, RecordOutput out) {
  const std::uint32_t count = *num_tasks;
  if (blockIdx.x == 0 && threadIdx.x == 0) *out.num_blocks = arrivals.places[count];
  for (std::uint32_t u = blockIdx.x; u < count; u += gridDim.x) {
    const TaskRecords task = arrivals.tasks[u];
    const std::uint32_t* const from = arrivals.records + std::uint64_t{task.first} * record_words;
    std::uint32_t* const to = out.to.heads + std::uint64_t{arrivals.places[u]} * record_words;
    const std::uint64_t words = std::uint64_t{task.count} * record_words;
#pragma unroll 4
    for (std::uint64_t x = threadIdx.x; x < words; x += kItemThreads) to[x] = from[x];
  }
}

}  // namespace

std::uint32_t small_region_bytes() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit");
  constexpr std::uint32_t kStatic = 11u << 10;  // lists and counts
  return static_cast<std::uint32_t>(bytes) >= kSmallWideBytes + kStatic ? kSmallWideBytes : kSmallestBytes;
}

std::size_t small_tasks_workspace_bytes(std::uint32_t max_rows, std::uint64_t max_tasks) {
  return std::max(scan_workspace_bytes<TasksOfRow, std::uint32_t>(std::uint64_t{max_rows} + 1),
                  scan_workspace_bytes<CountOfTask, std::uint32_t>(max_tasks + 1));
}

SmallTasks launch_small_tasks(const SmallBlocksProduct& product, const CBlocksView& c_blocks,
                              std::uint64_t max_row_pairs, const SmallBlocksScratch& scratch, cudaStream_t stream) {
  const SmallShape shape = small_shape(product.m, c_blocks.num_columns, small_region_bytes(), max_row_pairs);
  const TasksOfRow tasks{.a = product.a.index,
                         .pair_offsets = product.pair_offsets,
                         .row_begin = c_blocks.row_begin,
                         .num_rows = c_blocks.num_rows,
                         .shape = shape,
                         .spans = scratch.spans};
  if (shape.rank_pairs != 0 && max_row_pairs > shape.hash_slots) {
    find_spans<<<item_grid(std::uint64_t{c_blocks.num_rows} * 32), kItemThreads, 0, stream>>>(tasks, product, c_blocks,
                                                                                              scratch.spans);
    check_launch("find_spans");
  }
  const std::uint64_t num_offsets = std::uint64_t{c_blocks.num_rows} + 1;
  launch_scan(tasks, num_offsets, scratch.task_offsets, scratch.work, stream, "tasks of rows");
  write_tasks<<<item_grid(num_offsets), kItemThreads, 0, stream>>>(scratch.task_offsets, c_blocks.row_begin,
                                                                   c_blocks.num_rows, scratch.tasks);
  check_launch("write_tasks");
  return {.shape = shape,
          .tasks = scratch.tasks,
          .num_tasks = scratch.task_offsets + c_blocks.num_rows,
          .spans = tasks.spans};
}

void launch_order_tasks(std::uint32_t m, const SmallBlocksScratch& scratch, const CBlocksView& c_blocks,
                        const RecordOutput& out, cudaStream_t stream) {
  const SmallArrivals& arrivals = scratch.arrivals;
  const CountOfTask counts{arrivals.tasks};
  launch_scan(counts, scratch.max_tasks + 1, arrivals.places, scratch.work, stream, "places of tasks");
  constexpr unsigned kCtas = 2048;  // resident on the largest device
  order_tasks<<<kCtas, kItemThreads, 0, stream>>>(arrivals, scratch.task_offsets + c_blocks.num_rows, 2 + m * m, out);
  check_launch("order_tasks");
}

}  // namespace spmm::kernels
