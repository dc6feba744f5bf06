// Rows of a panel -> tasks of small-blocks, in result order: how many each row opens, where they begin, what they are.
#include "kernels/small/tasks.cuh"

#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/grid.cuh"
#include "kernels/items.cuh"
#include "kernels/resident.hpp"

namespace spmm::kernels {
namespace {

// Grid: as many CTAs as fit the device, a task after the other each.
// Work: copies a task's records to their place.
// Memory: contiguous reads and writes of 4 bytes per thread, four in flight.
__global__ void __launch_bounds__(kItemThreads) order_tasks(SmallLaunch launch) {
  const SmallArrivals& arrivals = launch.scratch.arrivals;
  const std::uint32_t count = *launch.num_tasks();
  const std::uint32_t record_words = 2 + launch.product.m * launch.product.m;
  if (blockIdx.x == 0 && threadIdx.x == 0) *launch.out.num_blocks = arrivals.places[count];
  for (std::uint32_t u = blockIdx.x; u < count; u += gridDim.x) {
    const TaskRecords task = arrivals.tasks[u];
    const std::uint32_t* const from = arrivals.records + std::uint64_t{task.first} * record_words;
    std::uint32_t* const to = launch.out.to.heads + std::uint64_t{arrivals.places[u]} * record_words;
    const std::uint64_t words = std::uint64_t{task.count} * record_words;
#pragma unroll 4
    for (std::uint64_t x = threadIdx.x; x < words; x += kItemThreads) to[x] = from[x];
  }
}

}  // namespace

std::uint32_t small_region_bytes() {
  constexpr std::uint32_t kStatic = 11u << 10;  // lists and counts
  const std::uint32_t bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return bytes >= kSmallWideBytes + kStatic ? kSmallWideBytes : kSmallestBytes;
}

std::size_t small_tasks_workspace_bytes(std::uint32_t max_rows, std::uint64_t max_tasks) {
  return std::max(Scan<TasksOfRow>::workspace_bytes(std::uint64_t{max_rows} + 1),
                  Scan<CountOfTask>::workspace_bytes(max_tasks + 1));
}

void launch_small_tasks(const SmallLaunch& launch, std::uint64_t max_row_pairs, cudaStream_t stream) {
  const SmallBlocksScratch& scratch = launch.scratch;
  const std::uint64_t num_rows = launch.c_blocks.num_rows;
  if (launch.shape.rank_pairs != 0 && max_row_pairs > launch.shape.hash_slots) {
    launch_find_spans(launch.product, launch.c_blocks, scratch.spans, nullptr, stream);
  }
  Scan<TasksOfRow>::launch({launch}, num_rows + 1, scratch.task_offsets, scratch.work, stream, "tasks of rows");
  // A row writes the tasks that open at it; behind the last one there is the row behind the panel.
  const std::uint32_t row_begin = launch.c_blocks.row_begin;
  launch_items(num_rows + 1, stream, "write_tasks", [=] __device__(std::uint64_t x) {
    const auto row = static_cast<std::uint32_t>(row_begin + x);
    const std::uint32_t first = scratch.task_offsets[x];
    const std::uint32_t end = x == num_rows ? first + 1 : scratch.task_offsets[x + 1];
    for (std::uint32_t u = first; u < end; ++u) scratch.tasks[u] = {.row = row, .chunk = u - first};
  });
}

void launch_order_tasks(const SmallLaunch& launch, cudaStream_t stream) {
  const SmallBlocksScratch& scratch = launch.scratch;
  Scan<CountOfTask>::launch({scratch.arrivals.tasks}, scratch.max_tasks + 1, scratch.arrivals.places, scratch.work,
                            stream, "places of tasks");
  constexpr unsigned kCtas = 2048;  // resident on the largest device
  order_tasks<<<kCtas, kItemThreads, 0, stream>>>(launch);
  check_launch("order_tasks");
}

}  // namespace spmm::kernels
