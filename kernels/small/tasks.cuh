// How small-blocks cuts a row panel into tasks, each the work of one CTA.
#pragma once

#include <cstdint>

#include "kernels/row_segments.cuh"
#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

/// How a row of C is accumulated.
enum class SmallRow : std::uint8_t {
  hashed,  // by one warp
  ranked,  // by CTAs, sums of C blocks that exist
  dense,   // by CTAs, sums of all block columns
};

/// What one launch works with.
struct SmallLaunch {
  RowProduct product;
  CBlocksView c_blocks;
  SmallShape shape;
  RowSplits splits;  // dense chunks
  SmallBlocksScratch scratch;
  RecordOutput out;
  std::uint32_t region_words;  // of shared memory for sums

  /// [1], device.
  [[nodiscard]] SPMM_HOST_DEVICE const std::uint32_t* num_tasks() const {
    return scratch.task_offsets + c_blocks.num_rows;
  }
  [[nodiscard]] __device__ SmallRow kind_of(std::uint32_t row) const {
    const std::uint64_t num_pairs = product.pairs_of_row(row);
    if (num_pairs <= shape.hash_slots) return SmallRow::hashed;
    return num_pairs <= shape.rank_pairs ? SmallRow::ranked : SmallRow::dense;
  }
};

/// Tasks that open at a row of the panel; 0 behind the last row, so that the scan ends with the total.
struct TasksOfRow {
  SmallLaunch launch;
  __device__ std::uint32_t operator()(std::uint64_t x) const {
    const SmallShape& shape = launch.shape;
    const auto row = static_cast<std::uint32_t>(launch.c_blocks.row_begin + x);
    if (x >= launch.c_blocks.num_rows) return 0;
    switch (launch.kind_of(row)) {
      case SmallRow::dense:
        return shape.dense_chunks;
      case SmallRow::ranked:
        return launch.scratch.spans[x].count == 0 ? 1 : (launch.scratch.spans[x].count - 1) / shape.rank_columns + 1;
      case SmallRow::hashed:
        break;
    }
    return x % (shape.rows_per_warp * kSmallWarps) == 0 || launch.kind_of(row - 1) != SmallRow::hashed ? 1 : 0;
  }
};

/// Records of a task.
struct CountOfTask {
  const TaskRecords* tasks;
  __device__ std::uint32_t operator()(std::uint64_t x) const { return tasks[x].count; }
};

/// Lists the tasks of a panel: launch.scratch. Values: max_row_pairs as launch_mul_small_blocks has it.
void launch_small_tasks(const SmallLaunch& launch, std::uint64_t max_row_pairs, cudaStream_t stream);

/// Copies the records of tasks that ran in any order to their places: launch.scratch.arrivals to launch.out.
void launch_order_tasks(const SmallLaunch& launch, cudaStream_t stream);

}  // namespace spmm::kernels
