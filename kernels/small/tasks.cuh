// How small-blocks cuts a row panel into tasks, each the work of one CTA.
#pragma once

#include <cstdint>

#include "kernels/small/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::kernels {

/// How a row of C is accumulated.
enum class SmallRow : std::uint8_t {
  hashed,  // by one warp
  ranked,  // by CTAs, sums of C blocks that exist
  dense,   // by CTAs, sums of all block columns
};

/// The tasks of a panel, in result order.
struct SmallTasks {
  SmallShape shape;
  const SmallTask* tasks;          // [*num_tasks + 1], device; the last one: the row behind the panel
  const std::uint32_t* num_tasks;  // [1], device
  const ColumnSpan* spans;         // [rows of the panel], device: of ranked rows
};

/// How a row of so many pairs is accumulated.
__host__ __device__ inline SmallRow small_row(const SmallShape& shape, std::uint64_t num_pairs) {
  if (num_pairs <= shape.hash_slots) return SmallRow::hashed;
  return num_pairs <= shape.rank_pairs ? SmallRow::ranked : SmallRow::dense;
}

/// Tasks that open at a row of the panel; 0 behind the last row, so that the scan ends with the total.
struct TasksOfRow {
  CompressedView a;
  const std::uint64_t* pair_offsets;
  std::uint32_t row_begin;
  std::uint32_t num_rows;
  SmallShape shape;
  const ColumnSpan* spans;  // [num_rows], device: of ranked rows

  [[nodiscard]] __device__ SmallRow kind(std::uint32_t x) const {
    return small_row(shape, pairs_of_row(a, pair_offsets, row_begin + x));
  }
  __device__ std::uint32_t operator()(std::uint32_t x) const {
    if (x >= num_rows) return 0;
    switch (kind(x)) {
      case SmallRow::dense:
        return shape.dense_chunks;
      case SmallRow::ranked:
        return spans[x].count == 0 ? 1 : (spans[x].count - 1) / shape.rank_columns + 1;
      case SmallRow::hashed:
        break;
    }
    return x % (shape.rows_per_warp * kSmallWarps) == 0 || kind(x - 1) != SmallRow::hashed ? 1 : 0;
  }
};

/// Records of a task.
struct CountOfTask {
  const TaskRecords* tasks;
  __device__ std::uint32_t operator()(std::uint64_t x) const { return tasks[x].count; }
};

/// Lists the tasks of a panel. Shapes: scratch and Workspace as SmallBlocksScratch says.
SmallTasks launch_small_tasks(const SmallBlocksProduct& product, const CBlocksView& c_blocks,
                              std::uint64_t max_row_pairs, const SmallBlocksScratch& scratch, cudaStream_t stream);

/// Copies the records of tasks that ran in any order to their places: scratch.arrivals to out.
void launch_order_tasks(std::uint32_t m, const SmallBlocksScratch& scratch, const CBlocksView& c_blocks,
                        const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
