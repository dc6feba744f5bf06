// The door to small-blocks: block-sparse products with m up to kMaxSmallSide. Declarations without CUDA syntax.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/tuning.hpp"
#include "kernels/views.hpp"

namespace spmm::kernels {

/// A by rows times B by rows, blocks of B transposed; C blocks name block columns.
struct SmallBlocksProduct {
  OperandView a;
  OperandView b;
  const std::uint32_t* b_row_index = nullptr;   // [nnzb of A], device
  const std::uint64_t* pair_offsets = nullptr;  // [nnzb of A + 1], device
  std::uint32_t m = 0;
  std::uint32_t nb = 0;
  std::uint32_t max_element = 0;                 // largest element of both operands
  const std::uint32_t* can_be_zero = nullptr;    // [1], device: launch_find_zeros
  const std::uint32_t* split_offsets = nullptr;  // launch_small_split_offsets for dense chunks of all nb; null = none
};

/// CTAs on this device.
SmallCta small_cta();

/// Hash tables of a warp.
struct SmallTables {
  std::uint32_t slots = 0;  // of each
  std::uint32_t rows_per_warp = 0;
};

/// Tables if no row that is hashed has more than max_row_pairs pairs.
SmallTables small_tables(std::uint32_t m, SmallCta cta, std::uint32_t hash_slots, std::uint64_t max_row_pairs);

/// split_offsets[r, c] = first block of B's row r in columns from c * chunk_columns on; the last one: the row's end.
/// Shapes: split_offsets [rows of B, num_chunks + 1], device.
void launch_small_split_offsets(CompressedView b, std::uint32_t chunk_columns, std::uint32_t num_chunks,
                                std::uint32_t* split_offsets, cudaStream_t stream);

std::size_t small_tasks_workspace_bytes(std::uint32_t max_rows, std::uint64_t max_tasks);

/// Records of one task of small-blocks.
struct TaskRecords {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Where tasks write that run in any order.
struct SmallArrivals {
  std::uint32_t* records = nullptr;  // [C blocks of the panel at most, 2 + m * m], device; null = tasks run in order
  std::uint32_t* num_records = nullptr;  // [1], device
  TaskRecords* tasks = nullptr;          // [max_tasks + 1], device
  std::uint32_t* places = nullptr;       // [max_tasks + 1], device: records before each task in result order
};

/// Scratch of launch_mul_small_blocks; tasks = max_small_tasks of the panel.
struct SmallBlocksScratch {
  std::uint64_t max_tasks = 0;
  std::uint64_t* tasks = nullptr;         // [max_tasks + 1], device; RecordOutput.look_back has [max_tasks + 1] too
  std::uint32_t* task_offsets = nullptr;  // [rows of the panel + 1], device
  std::uint64_t* spans = nullptr;         // [rows of the panel], device
  SmallArrivals arrivals;
  Workspace work;
};

/// Row by row with sums in shared memory, by a warp or by CTAs; writes records. All columns of the panel
/// (c_blocks.keys null). Values: max_row_pairs = no row of the panel has more.
void launch_mul_small_blocks(const SmallBlocksProduct& product, const CBlocksView& c_blocks,
                             std::uint64_t max_row_pairs, const SmallBlocksScratch& scratch, const RecordOutput& out,
                             cudaStream_t stream);

// ---- sorted_rows.cu

/// What no row has more of.
struct RowLengths {
  std::uint64_t pairs = 0;
  std::uint32_t blocks = 0;  // of A
};

/// The same product if sorts_rows(): warps sort the pairs of each row.
/// Shapes: out.look_back [2 + rows / sorted_rows_at_once()]; records packed or in arrays. Values: all columns.
void launch_mul_sorted_rows(const SmallBlocksProduct& product, const CBlocksView& c_blocks, RowLengths longest,
                            const RecordOutput& out, cudaStream_t stream);

}  // namespace spmm::kernels
